// Package image makes sure that the images of containers are there.
//
// Nobody waits in here. A worker asks for an image and is told how things stand:
// present, being pulled, or failed and to be tried again at a given time. When
// that changes, the workers that asked are told to look again. The same image is
// pulled once, however many pods ask for it with the same credentials.
//
// Credentials come from the Secrets of a pod and from the machine. Those of a pod are
// for that pod: an image that came by them is used by pods that could have pulled it,
// and by no others (see Records).
//
// Only the Manager writes its table of pulls, and only Records its files.
package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/runtime/keyring"
)

// Runtime is what the manager needs of a runtime.
type Runtime interface {
	ImageRef(ctx context.Context, image string) (string, error)
	// PullImage returns the reference of what it pulled.
	PullImage(ctx context.Context, image string, show keyring.Credential) (ref string, err error)
}

// Objects are where pods name Secrets with credentials.
type Objects interface {
	Secret(ctx context.Context, p *v1.Pod, name string) (*v1.Secret, error)
	ServiceAccount(ctx context.Context, p *v1.Pod, name string) (*v1.ServiceAccount, error)
}

// Keyring is what the machine can show for a repository.
type Keyring interface {
	// Lookup finds it, on behalf of a pod or, if that is nil, of nobody in particular. The
	// error tells why there may be more, and does not keep anybody from trying.
	Lookup(ctx context.Context, repository string, p *v1.Pod) ([]keyring.Credential, error)
	// Account is the pod's service account if what Lookup finds depends on it, or nil. It
	// has no UID while the cluster can't be asked about it.
	Account(ctx context.Context, repository string, p *v1.Pod) (*keyring.Account, error)
}

// Config is what a Manager is made of.
type Config struct {
	Runtime  Runtime
	Log      *slog.Logger
	Parallel int // pulls at a time
	// PerSecond and Burst are how many pulls may begin; 0: as many as like to.
	PerSecond, Burst int
	// Objects and Keyring have credentials. Nil: there are none.
	Objects Objects
	Keyring Keyring
	// Records say who may use what is there. Nil: everybody.
	Records *Records
	// Size is how many bytes an image had when it was last here, or 0. It may be nil.
	Size func(image string) int64
	// Enqueue is told the pods whose image is there, or could not be pulled.
	Enqueue func(context.Context, pod.UID)
	// Explain turns an error of the runtime into words for a status.
	Explain func(error) string
	// Pulled is told of each pull that was made, and how long it took, if it is there.
	Pulled func(ctx context.Context, image string, took time.Duration, err error)
	// PullProgress is how many bytes of what is pulled from a repository just now are here, of
	// how many. A total of 0: that is not known. Nil: the runtime does not tell.
	PullProgress func(ctx context.Context, repository string) (done, total int64)
	// GaveUp tells whether the runtime ended a pull because nothing came, as it does after
	// Patience; 0: it is not known how long that is. Nil: it never does.
	GaveUp      func(error) bool
	PullTimeout time.Duration
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

	// NoSecrets says which pull secrets of the pod could not be used, if it is to be pulled.
	NoSecrets string
}

// Manager pulls images.
type Manager struct {
	Config
	group *run.Group
	queue queue
	rate  *rate.Limiter

	mu       sync.Mutex
	images   map[key]*entry
	arrivals map[string]*arrival // by image
}

// New returns a manager whose pulls end when ctx does. Stop waits for them.
func New(ctx context.Context, c Config) (*Manager, error) {
	if c.Runtime == nil || c.Log == nil || c.Enqueue == nil || c.Explain == nil {
		return nil, errors.New("image: runtime, log, wake and explain are required")
	}
	if c.Parallel < 1 {
		return nil, errors.New("image: at least one pull must be allowed at a time")
	}
	limit := rate.Inf
	if c.PerSecond > 0 {
		limit = rate.Limit(c.PerSecond)
	}
	return &Manager{
		Config:   c,
		group:    run.NewGroup(ctx, c.Log),
		queue:    queue{free: c.Parallel},
		rate:     rate.NewLimiter(limit, max(c.Burst, 1)),
		images:   map[key]*entry{},
		arrivals: map[string]*arrival{},
	}, nil
}

// Stop ends all pulls.
func (m *Manager) Stop() { m.group.Stop() }

// Ensure says how things stand with the image of a container, and starts a pull
// if one is due. With pull policy Always, it asks for a pull of its own before
// every start. So it does for an image that is there, and that the pod has not
// shown yet that it may use.
func (m *Manager) Ensure(ctx context.Context, p *v1.Pod, c *v1.Container) State {
	image, who := c.Image, waiter{p.UID, c.Name}
	repository, err := keyring.Repository(image)
	if err != nil {
		return State{
			Reason:  pod.ReasonInvalidImageName,
			Message: fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name: %v", image, err),
		}
	}
	ref, err := m.Runtime.ImageRef(ctx, image)
	if err != nil {
		return State{Reason: pod.ReasonImageInspectError, Message: m.Explain(err), Until: time.Now().Add(firstBackoff)}
	}
	shown := sync.OnceValue(func() credentials { return m.credentialsOf(ctx, p, repository) })
	allowed := ref != "" && (m.Records == nil ||
		m.Records.Allows(image, repository, ref, func() Shown { return shown().Shown }))
	if allowed && c.ImagePullPolicy != v1.PullAlways {
		m.stopWaitingAll(who)
		return State{Ref: ref}
	}
	return m.wait(p, c, pull{image: image, repository: repository, credentials: shown(), pod: p}, ref)
}

// wait is Ensure for an image that can't be used just so.
func (m *Manager) wait(p *v1.Pod, c *v1.Container, what pull, ref string) State {
	who, k := waiter{p.UID, c.Name}, what.key()
	m.mu.Lock()
	defer m.mu.Unlock()
	for other := range m.images {
		if other != k {
			m.stopWaiting(other, who) // its spec was edited, or its secrets
		}
	}
	e := m.images[k]
	if ref != "" && e != nil && e.waiters[who] == served {
		m.stopWaiting(k, who)
		return State{Ref: ref}
	}
	if e == nil {
		e = &entry{waiters: map[waiter]waitState{}}
		m.images[k] = e
	}
	e.waiters[who] = requested
	if c.ImagePullPolicy == v1.PullNever {
		return never(what, ref)
	}
	if e.cancel != nil {
		m.queue.raise(e.turn, priorityOf(p))
	} else {
		if s, waits := m.failure(what, e); waits {
			return s
		}
		m.pull(k, e, what, priorityOf(p))
	}
	return pulling(what, e, time.Now())
}

// pulling is what is told of an image that is to come.
func pulling(what pull, e *entry, now time.Time) State {
	s := State{Reason: pod.ReasonContainerCreating, Message: fmt.Sprintf("Pulling image %q", what.image), NoSecrets: what.problem}
	switch late := e.askedAt.Add(credentialsTimeout); {
	case e.askedAt.IsZero():
	case now.Before(late):
		s.Until = late
	default:
		s.Message += ": waiting for credentials: a credential provider plugin does not answer"
	}
	return s
}

func never(what pull, ref string) State {
	s := State{
		Reason:  pod.ReasonErrImageNeverPull,
		Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", what.image),
		Until:   time.Now().Add(maxBackoff), // somebody may load it by hand
	}
	if ref != "" {
		s.Message = fmt.Sprintf("Container image %q is present, but was pulled with credentials that this pod does not have, and pull policy is Never", what.image)
	}
	return s
}

// failure is what is told of an image whose last pull failed, until it is time for
// the next. The caller holds the lock.
func (m *Manager) failure(what pull, e *entry) (State, bool) {
	if e.err == nil {
		return State{}, false
	}
	now, next := time.Now(), e.failedAt.Add(e.backoff)
	why := m.explain(e.err)
	if what.problem != "" { // others who wait for it may have no such problem
		why += "; pull secrets: " + what.problem
	}
	switch {
	case now.Before(e.failedAt.Add(showError)):
		return State{Reason: pod.ReasonErrImagePull, Message: why, Until: e.failedAt.Add(showError)}, true
	case now.Before(next):
		return State{
			Reason:  pod.ReasonImagePullBackOff,
			Message: fmt.Sprintf("Back-off pulling image %q: %s: %s", what.image, pod.ReasonErrImagePull, why),
			Until:   next,
		}, true
	}
	return State{}, false
}

func priorityOf(p *v1.Pod) int32 {
	switch {
	case p.Spec.Priority != nil:
		return *p.Spec.Priority
	case pod.IsCritical(p):
		return byHand
	}
	return 0
}
