// Package observe caches the state of each pod in the runtime.
//
// A container event of the runtime marks the cached state of its pod as stale and enqueues the pod;
// the worker of the pod then reads the state anew. All pods are listed at a slow interval, to find
// changes for which no event came. A runtime without events is listed at the poll interval instead.
//
// Only the Observer writes the cache. Readers get copies.
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

// Runtime is the part of the CRI client that the observer calls.
type Runtime interface {
	Pod(ctx context.Context, uid pod.UID) (pod.Observed, error)
	List(ctx context.Context) (map[pod.UID]*pod.Observed, error)
	Events(ctx context.Context, opened func(), each func(cri.Event)) error
}

// Config configures an Observer.
type Config struct {
	Runtime        Runtime
	Log            *slog.Logger
	RelistInterval time.Duration // between two lists while events arrive
	PollInterval   time.Duration // between two lists of a runtime without events
	// Enqueue asks for another sync of a pod whose state may have changed. It may block.
	Enqueue func(context.Context, pod.UID)
	// Relisted is called after each list of all pods, with its start and its duration. It may be
	// nil.
	Relisted func(at time.Time, took time.Duration)
	// PodRead is called after each read of one pod, with its duration. It may be nil.
	PodRead func(took time.Duration)
}

// Observer caches the observed state of pods.
type Observer struct {
	Config
	relistNow chan struct{}
	clock     func() moment

	mu    sync.Mutex
	known map[pod.UID]*entry
}

// entry is the cached state of a pod. It is stale while changedAt is not before the time at which
// the state was read. Both are readings of the monotonic clock.
type entry struct {
	state     pod.Observed
	read      moment // when reading the state began, to compare it with events
	changedAt time.Time
}

// New returns an observer that has seen nothing yet.
func New(c Config) (*Observer, error) {
	if c.Runtime == nil || c.Log == nil || c.Enqueue == nil {
		return nil, errors.New("observe: runtime, log and enqueue are required")
	}
	if c.RelistInterval <= 0 || c.PollInterval <= 0 {
		return nil, errors.New("observe: the relist and poll intervals must be positive")
	}
	return &Observer{Config: c, relistNow: make(chan struct{}, 1), clock: newClock(), known: map[pod.UID]*entry{}}, nil
}

// Get returns the state of a pod, read no earlier than since and no earlier than the last event or
// list that showed a change.
func (o *Observer) Get(ctx context.Context, uid pod.UID, since time.Time) (pod.Observed, error) {
	o.mu.Lock()
	e := o.known[uid]
	if e == nil {
		e = &entry{} // an event during the first read marks it
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
	if !at.Before(e.state.At) { // else another read began later and ended first
		e.state, e.read = state, read
	}
	return state, nil
}

// All returns the cached state of every pod, without a call to the runtime. Some of it may be
// stale.
func (o *Observer) All() []pod.Observed {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]pod.Observed, 0, len(o.known))
	for _, e := range o.known {
		out = append(out, e.state)
	}
	return out
}

// Forget drops the cached state of a pod that is gone.
func (o *Observer) Forget(uid pod.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, uid)
}

// Relist asks for a list of all pods soon: after the runtime came back, for example.
func (o *Observer) Relist() {
	select {
	case o.relistNow <- struct{}{}:
	default: // a list is due already
	}
}

// markStale marks the pod of an event as stale. It returns false if the cached state was certainly
// read after the event: a runtime also sends events of our own calls, and events that are minutes
// old.
func (o *Observer) markStale(e cri.Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.known[e.UID]
	if known == nil {
		return true // never read: nothing to mark
	}
	if !known.state.At.IsZero() && known.read.isAfter(e.At, o.clock()) {
		return false
	}
	known.changedAt = time.Now()
	return true
}
