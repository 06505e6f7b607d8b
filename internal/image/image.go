// Package image makes sure that the images of containers are there.
//
// Nobody waits in here. A worker asks for an image and is told how things stand:
// present, being pulled, or failed and to be tried again at a given time. When
// that changes, the workers that asked are told to look again. The same image is
// pulled once, however many pods ask for it.
//
// Only the Manager writes its table of pulls.
package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
	"berth/internal/run"
)

// Runtime is what the manager needs of a runtime.
type Runtime interface {
	ImageRef(ctx context.Context, image string) (string, error)
	PullImage(ctx context.Context, image string) error
}

// Config is what a Manager is made of.
type Config struct {
	Runtime  Runtime
	Log      *slog.Logger
	Parallel int // pulls at a time
	// Wake is told the pods whose image is there, or could not be pulled.
	Wake func(context.Context, pod.UID)
	// Explain turns an error of the runtime into words for a status.
	Explain func(error) string
	// Pulled is told of each pull that was made, and how long it took, if it is there.
	Pulled func(ctx context.Context, image string, took time.Duration, err error)
}

const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute

	// showError is for how long a failed pull reads as ErrImagePull, before it
	// reads as ImagePullBackOff until the next try.
	showError = 2 * time.Second
)

// State is how things stand with an image for a pod.
type State struct {
	Ref string // set once the image is there, and then nothing else is

	Reason  string // why it is not there, as users know it
	Message string
	Until   time.Time // when to ask again even if nothing happens; zero: a wake-up will come
}

// Manager pulls images.
type Manager struct {
	Config
	group *run.Group
	slots chan struct{}

	mu     sync.Mutex
	images map[string]*entry
}

// entry is an image that somebody waits for. It is there as long as they do.
type entry struct {
	waiters  map[waiter]progress
	cancel   context.CancelFunc // of the pull that runs; nil if none does
	err      error              // of the last pull
	failedAt time.Time
	backoff  time.Duration // from failedAt to the next try
}

// waiter is a container that waits for its image. It waits for one at a time.
type waiter struct {
	uid       pod.UID
	container string
}

// progress is how far a waiter has come.
type progress int

const (
	asked  progress = iota
	served          // the pull that it asked for succeeded
)

// New returns a manager whose pulls end when ctx does. Stop waits for them.
func New(ctx context.Context, c Config) (*Manager, error) {
	if c.Runtime == nil || c.Log == nil || c.Wake == nil || c.Explain == nil {
		return nil, errors.New("image: runtime, log, wake and explain are required")
	}
	if c.Parallel < 1 {
		return nil, errors.New("image: at least one pull must be allowed at a time")
	}
	return &Manager{
		Config: c,
		group:  run.NewGroup(ctx, c.Log),
		slots:  make(chan struct{}, c.Parallel),
		images: map[string]*entry{},
	}, nil
}

// Stop ends all pulls.
func (m *Manager) Stop() { m.group.Stop() }

// Ensure says how things stand with the image of a container, and starts a pull
// if one is due. With pull policy Always, it asks for a pull of its own before
// every start.
func (m *Manager) Ensure(ctx context.Context, uid pod.UID, c *v1.Container) State {
	image, who := c.Image, waiter{uid, c.Name}
	if _, err := reference.ParseNormalizedNamed(image); err != nil {
		return State{
			Reason:  pod.ReasonInvalidImageName,
			Message: fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name: %v", image, err),
		}
	}
	ref, err := m.Runtime.ImageRef(ctx, image)
	if err != nil {
		return State{Reason: pod.ReasonImageInspectError, Message: m.Explain(err), Until: time.Now().Add(firstBackoff)}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	for other := range m.images {
		if other != image {
			m.leave(other, who) // its spec was edited
		}
	}
	e := m.images[image]
	if ref != "" && (c.ImagePullPolicy != v1.PullAlways || (e != nil && e.waiters[who] == served)) {
		m.leave(image, who)
		return State{Ref: ref}
	}
	if e == nil {
		e = &entry{waiters: map[waiter]progress{}}
		m.images[image] = e
	}
	e.waiters[who] = asked
	if c.ImagePullPolicy == v1.PullNever {
		return State{
			Reason:  pod.ReasonErrImageNeverPull,
			Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", image),
			Until:   time.Now().Add(maxBackoff), // somebody may load it by hand
		}
	}
	if e.cancel == nil {
		now := time.Now()
		switch next := e.failedAt.Add(e.backoff); {
		case e.err != nil && now.Before(e.failedAt.Add(showError)):
			return State{Reason: pod.ReasonErrImagePull, Message: m.Explain(e.err), Until: e.failedAt.Add(showError)}
		case e.err != nil && now.Before(next):
			return State{
				Reason:  pod.ReasonImagePullBackOff,
				Message: fmt.Sprintf("Back-off pulling image %q: %s", image, m.Explain(e.err)),
				Until:   next,
			}
		}
		m.pull(image, e)
	}
	return State{Reason: pod.ReasonContainerCreating, Message: fmt.Sprintf("Pulling image %q", image)}
}

// pull starts to fetch an image. The caller holds the lock.
func (m *Manager) pull(image string, e *entry) {
	ctx, cancel := context.WithCancel(m.group.Context())
	e.cancel = cancel
	m.group.Go("pull "+image, func(groupCtx context.Context) {
		defer cancel()
		err := m.fetch(ctx, image)
		for _, uid := range m.finish(ctx, image, e, err) {
			m.Wake(groupCtx, uid)
		}
	})
}

func (m *Manager) fetch(ctx context.Context, image string) error {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	err := m.Runtime.PullImage(ctx, image)
	if m.Pulled != nil {
		m.Pulled(ctx, image, time.Since(began), err)
	}
	return err
}

// finish notes how a pull ended and returns who waits for it.
func (m *Manager) finish(ctx context.Context, image string, e *entry, err error) []pod.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return nil // nobody waits any more
	}
	e.cancel = nil
	failedBefore := e.err != nil
	e.err = err
	switch {
	case err != nil:
		e.failedAt = time.Now()
		e.backoff = min(max(firstBackoff, 2*e.backoff), maxBackoff)
		if !failedBefore { // once; the status of the pods tells the rest
			m.Log.Warn("can't pull image; trying again", "image", image, "err", err)
		}
	default:
		e.backoff = 0
		for who := range e.waiters {
			e.waiters[who] = served
		}
		if failedBefore {
			m.Log.Info("image pulled after all", "image", image)
		}
	}
	return e.pods(nil)
}

// pods adds those who wait for the image to uids, each once.
func (e *entry) pods(uids []pod.UID) []pod.UID {
	for who := range e.waiters {
		if !slices.Contains(uids, who.uid) {
			uids = append(uids, who.uid)
		}
	}
	return uids
}

// Release ends the wait of a pod that goes. A pull that nobody waits for any more ends.
func (m *Manager) Release(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for image, e := range m.images {
		for who := range e.waiters {
			if who.uid == uid {
				m.leave(image, who)
			}
		}
	}
}

// leave ends the wait of one, if it waits. The caller holds the lock.
func (m *Manager) leave(image string, who waiter) {
	e := m.images[image]
	if e == nil {
		return
	}
	delete(e.waiters, who)
	if len(e.waiters) > 0 {
		return
	}
	if e.cancel != nil {
		e.cancel()
	}
	delete(m.images, image)
}

// Recheck wakes every pod that waits for an image: some may have arrived by
// another way than a pull.
func (m *Manager) Recheck(ctx context.Context) {
	m.mu.Lock()
	var uids []pod.UID
	for _, e := range m.images {
		uids = e.pods(uids)
	}
	m.mu.Unlock()
	for _, uid := range uids {
		m.Wake(ctx, uid)
	}
}
