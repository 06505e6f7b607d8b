// Package observe knows what the runtime holds of each pod.
//
// The runtime's events only say that a pod is worth another look: they mark what
// is known of it as stale, and tell the agent. The state itself is always read
// from the runtime, by whoever is about to act on it. A slow list of everything
// is the audit that finds what no event told of. A runtime without events is
// listed every second instead.
//
// Only the Observer writes what is known. Readers get copies.
package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

// Runtime is what the observer needs of a runtime.
type Runtime interface {
	Pod(ctx context.Context, uid pod.UID) (pod.Observed, error)
	List(ctx context.Context) (map[pod.UID]*pod.Observed, error)
	Events(ctx context.Context, opened func(), each func(cri.Event)) error
}

// Config is what an Observer is made of.
type Config struct {
	Runtime        Runtime
	Log            *slog.Logger
	RelistInterval time.Duration // between two lists while events arrive
	PollInterval   time.Duration // between two lists of a runtime without events
	// Enqueue is told the pods that are worth another look. It may block.
	Enqueue func(context.Context, pod.UID)
	// Relisted is told of each list of everything: when it began, and how long it
	// took. It may be nil.
	Relisted func(at time.Time, took time.Duration)
	// PodRead is told how long it took to read the state of one pod. It may be nil.
	PodRead func(took time.Duration)
}

// Observer is the one place that knows the observed state of pods.
type Observer struct {
	Config
	relistNow chan struct{}
	clock     func() moment

	mu    sync.Mutex
	known map[pod.UID]*entry
}

// entry is what is known of a pod. It is stale while changedAt is not before
// the time at which the state was read. Both were read here, from the clock that nobody
// can set.
type entry struct {
	state     pod.Observed
	read      moment // when reading the state began, to compare it with events
	changedAt time.Time
}

// New returns an observer that has seen nothing yet.
func New(c Config) (*Observer, error) {
	if c.Runtime == nil || c.Log == nil || c.Enqueue == nil {
		return nil, errors.New("observe: runtime, log and changed are required")
	}
	if c.RelistInterval <= 0 || c.PollInterval <= 0 {
		return nil, errors.New("observe: the audit and fallback intervals must be positive")
	}
	return &Observer{Config: c, relistNow: make(chan struct{}, 1), clock: newClock(), known: map[pod.UID]*entry{}}, nil
}

// Get returns the state of a pod, read no earlier than since and no earlier
// than the last sign of a change.
func (o *Observer) Get(ctx context.Context, uid pod.UID, since time.Time) (pod.Observed, error) {
	o.mu.Lock()
	e := o.known[uid]
	if e == nil {
		e = &entry{} // what happens while it is read for the first time is noted here
		o.known[uid] = e
	}
	if e.state.At.After(since) && e.state.At.After(e.changedAt) {
		state := e.state
		o.mu.Unlock()
		return state, nil
	}
	o.mu.Unlock()

	at, read := time.Now(), o.clock()
	state, err := o.Runtime.Pod(ctx, uid)
	if err != nil {
		return pod.Observed{}, fmt.Errorf("observe pod %s: %w", uid, err)
	}
	state.At = at
	if o.PodRead != nil {
		o.PodRead(time.Since(at))
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	if !at.Before(e.state.At) { // else somebody read it later, and finished first
		e.state, e.read = state, read
	}
	return state, nil
}

// All returns what was last read of every pod. It asks nobody, so some of it may
// be out of date.
func (o *Observer) All() []pod.Observed {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]pod.Observed, 0, len(o.known))
	for _, e := range o.known {
		out = append(out, e.state)
	}
	return out
}

// Forget drops what is known of a pod that is gone for good.
func (o *Observer) Forget(uid pod.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, uid)
}

// Relist asks for an audit soon: after the runtime came back, for example.
func (o *Observer) Relist() {
	select {
	case o.relistNow <- struct{}{}:
	default: // one is already asked for
	}
}

// markStale notes an event. It returns false if what is known was certainly read after it: a
// runtime tells of what was done to a pod, and of what is minutes old.
func (o *Observer) markStale(e cri.Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.known[e.UID]
	if known == nil {
		return true // nobody looked at it yet: nothing to mark
	}
	if !known.state.At.IsZero() && known.read.isAfter(e.At, o.clock()) {
		return false
	}
	known.changedAt = time.Now()
	return true
}
