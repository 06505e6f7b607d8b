// Package image pulls the images of containers.
//
// Ensure does not wait. It returns the state of an image: present, being pulled, or failed
// and to be tried again at a given time. When that changes, the pods that wait for the
// image are enqueued. The same image is pulled once, however many pods ask for it with the
// same credentials.
//
// Credentials come from the Secrets of a pod and from the machine. The credentials of a pod
// are for that pod: an image that was pulled with them is used by pods that could have
// pulled it, and by no others (see Records).
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

// Runtime is the part of a container runtime that the manager uses.
type Runtime interface {
	ImageRef(ctx context.Context, image string) (string, error)
	// PullImage pulls an image and returns its reference.
	PullImage(ctx context.Context, image string, show keyring.Credential) (ref string, err error)
}

// Objects returns Secrets with credentials, and the service accounts that name them.
type Objects interface {
	Secret(ctx context.Context, p *v1.Pod, name string) (*v1.Secret, error)
	ServiceAccount(ctx context.Context, p *v1.Pod, name string) (*v1.ServiceAccount, error)
}

// Keyring has the credentials of the machine.
type Keyring interface {
	// Lookup returns the credentials for a repository, on behalf of a pod or, if p is nil, of
	// none. The error says why credentials may be missing; those that are returned can be used.
	Lookup(ctx context.Context, repository string, p *v1.Pod) ([]keyring.Credential, error)
	// Account returns the pod's service account if the result of Lookup depends on it, or nil.
	// It has no UID while the cluster can't be asked about it.
	Account(ctx context.Context, repository string, p *v1.Pod) (*keyring.Account, error)
}

// Config configures a Manager.
type Config struct {
	Runtime  Runtime
	Log      *slog.Logger
	Parallel int // pulls at a time
	// PerSecond and Burst limit how many pulls may begin; 0: no limit.
	PerSecond, Burst int
	// Objects and Keyring have the credentials. Nil: there are none.
	Objects Objects
	Keyring Keyring
	// Records decides which pods may use an image that is present. Nil: all may.
	Records *Records
	// Size returns the size of an image when it was last present, in bytes, or 0. It may be nil.
	Size func(image string) int64
	// Enqueue is called for each pod whose image is present now, or could not be pulled.
	Enqueue func(context.Context, pod.UID)
	// Explain turns an error of the runtime into the message of a status.
	Explain func(error) string
	// Pulled is called after each pull, with the time that it took. It may be nil.
	Pulled func(ctx context.Context, image string, took time.Duration, err error)
	// Ensured is called after each Ensure: whether the image is present, and whether it has to be pulled; nil if that was not found
	// out. Checked is called with the verdict of the Records. Both may be nil.
	Ensured func(policy v1.PullPolicy, present, pull *bool)
	Checked func(Verdict)
	// PullProgress returns the bytes that the running pulls from a repository have received, and
	// their total; a total of 0 is not known. Nil: the runtime does not report progress.
	PullProgress func(ctx context.Context, repository string) (done, total int64)
	// GaveUp reports whether the runtime ended a pull because no data came for PullTimeout; 0: it
	// is not known how long that is. Nil: the runtime never does that.
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

// State is the state of an image for a pod.
type State struct {
	Ref string // set if the image can be used; the other fields are empty then

	Reason  string // why it can't, as state.waiting.reason
	Message string
	Until   time.Time // when to call Ensure again; zero: the pod is enqueued when the state changes

	// NoSecrets says which pull secrets of the pod could not be used, while the image is pulled.
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
		return nil, errors.New("image: runtime, log, enqueue and explain are required")
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

// Ensure returns the state of a container's image, and starts a pull if one is due. With
// pull policy Always, there is a pull before every start of the container. So there is for
// an image that is present, but that the pod has shown no credentials for yet.
func (m *Manager) Ensure(ctx context.Context, p *v1.Pod, c *v1.Container) State {
	var present, required *bool
	defer func() {
		if m.Ensured != nil {
			m.Ensured(c.ImagePullPolicy, present, required)
		}
	}()
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
	present = new(ref != "")
	found := sync.OnceValue(func() credentials { return m.credentialsOf(ctx, p, repository) })
	allowed := ref != "" && m.allowed(image, repository, ref, func() PodCredentials { return found().PodCredentials })
	required = new(!allowed || c.ImagePullPolicy == v1.PullAlways)
	if !*required {
		m.stopWaitingAll(who)
		return State{Ref: ref}
	}
	return m.wait(p, c, pull{image: image, repository: repository, credentials: found(), pod: p}, ref)
}

// allowed reports whether a pod with these credentials may use an image that is present.
func (m *Manager) allowed(image, repository, ref string, credentials func() PodCredentials) bool {
	if m.Records == nil {
		return true
	}
	verdict := m.Records.Check(image, repository, ref, credentials)
	if m.Checked != nil {
		m.Checked(verdict)
	}
	return verdict.Allows()
}

// wait is the part of Ensure for an image that has to be pulled first.
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

// pulling is the state of an image that is being pulled.
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
		Until:   time.Now().Add(maxBackoff), // it may be loaded by hand
	}
	if ref != "" {
		s.Message = fmt.Sprintf("Container image %q is present, but was pulled with credentials that this pod does not have, and pull policy is Never", what.image)
	}
	return s
}

// failure returns the state of an image whose last pull failed, until the next pull is due.
// The caller holds the lock.
func (m *Manager) failure(what pull, e *entry) (State, bool) {
	if e.err == nil {
		return State{}, false
	}
	now, next := time.Now(), e.failedAt.Add(e.backoff)
	why := m.explain(e.err)
	if what.problem != "" { // of this pod; other waiters may have none
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
