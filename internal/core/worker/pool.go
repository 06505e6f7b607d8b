// Package worker gives each pod a goroutine of its own, which performs one step for it at a time:
// Sync, Stop, Release or Cleanup of the Executor, as the phase of the pod asks for.
//
// A pod's life goes one way: Syncing, Terminating, Terminated, Gone (see life.go). A pod that ended
// never runs again under its UID, unless the cause of its end was a passing one. Requests change
// the life and wake the goroutine; those that come while a step runs lead to one more step. A step
// that fails is retried here, with a growing backoff, and nowhere else.
//
// Only the Pool starts and removes workers. Two static pods of one name never run at the same
// time: the later one waits until the earlier one is gone.
package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// Executor performs the steps of pods. Every method may be called again after it failed or was
// interrupted, and then continues where it stopped.
type Executor interface {
	// Sync brings a pod one step closer to its spec. A pod that was stopped before begins a new
	// life.
	Sync(ctx context.Context, p *v1.Pod, have pod.Observed) (pod.Outcome, error)
	// Stop stops the containers and sandboxes of a pod, by force once grace is over. It returns
	// done if nothing ran when it was called.
	Stop(ctx context.Context, p *v1.Pod, have pod.Observed, grace time.Duration, cause pod.Cause) (done bool, err error)
	// Release lets the API server delete a terminated pod, since the pod holds nothing on this
	// node any more.
	Release(ctx context.Context, p *v1.Pod, have pod.Observed) error
	// Cleanup removes all that is left of a pod.
	Cleanup(ctx context.Context, p *v1.Pod, have pod.Observed) error
}

// Observer returns the state of a pod in the runtime, read no earlier than since.
type Observer interface {
	Get(ctx context.Context, uid pod.UID, since time.Time) (pod.Observed, error)
}

// Config configures a Pool.
type Config struct {
	Executor Executor
	Observer Observer
	Log      *slog.Logger
	// EnqueueAt has Enqueue called for a pod at that time.
	EnqueueAt func(pod.UID, time.Time)
	// PodGone is called when nothing is left of a pod. It may block.
	PodGone func(context.Context, pod.UID)

	// Unobserved is called when the state of a pod can't be read from the runtime, and not for the first time in a row. It must not
	// block, and may be nil.
	Unobserved func(p *v1.Pod, err error)

	// SyncStarted is called before each step, and the function that it returns after it.
	// Restarted is called when a pod that was removed starts again under the same UID. Both are
	// for metrics and traces, and may be nil.
	SyncStarted func(ctx context.Context, p *v1.Pod, phase Phase) (context.Context, func(error))
	Restarted   func(*v1.Pod)
}

// Pool holds the workers.
type Pool struct {
	Config
	group *run.Group

	mu          sync.Mutex
	workers     map[pod.UID]*worker
	nameHolders map[string]pod.UID // the static pod that has a full name
	nameQueue   map[string]*v1.Pod // the static pod that waits for it
}

// New returns a pool without workers. They end when ctx does; Stop waits for them.
func New(ctx context.Context, c Config) (*Pool, error) {
	if c.Executor == nil || c.Observer == nil || c.Log == nil || c.EnqueueAt == nil || c.PodGone == nil {
		return nil, errors.New("worker: executor, observer, log, enqueueAt and podGone are required")
	}
	if c.SyncStarted == nil {
		c.SyncStarted = func(ctx context.Context, _ *v1.Pod, _ Phase) (context.Context, func(error)) {
			return ctx, func(error) {}
		}
	}
	return &Pool{
		Config:      c,
		group:       run.NewGroup(ctx, c.Log),
		workers:     map[pod.UID]*worker{},
		nameHolders: map[string]pod.UID{},
		nameQueue:   map[string]*v1.Pod{},
	}, nil
}

// Stop ends the workers and leaves their pods as they are.
func (p *Pool) Stop() { p.group.Stop() }

// Desire starts a pod, or passes a newer version of it to its worker.
func (p *Pool) Desire(want *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[want.UID]; w != nil {
		w.apply(desire{want})
		return
	}
	if pod.IsStatic(want) {
		name := pod.FullName(want)
		if _, taken := p.nameHolders[name]; taken {
			p.nameQueue[name] = want
			return
		}
		p.nameHolders[name] = want.UID
	}
	p.start(want.UID, newLife(want), nil)
}

// Remove stops a pod that no source has any more, and removes all that is left of it.
func (p *Pool) Remove(gone *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waiting := p.nameQueue[pod.FullName(gone)]; waiting != nil && waiting.UID == gone.UID {
		delete(p.nameQueue, pod.FullName(gone))
	}
	if w := p.workers[gone.UID]; w != nil {
		w.apply(remove{})
	}
}

// End stops a pod that its source still has. A nil grace means the pod's own.
func (p *Pool) End(uid pod.UID, grace *int64, cause pod.Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[uid]; w != nil {
		w.apply(stop{grace: grace, cause: cause})
	}
}

// Ended returns a channel that is closed once nothing of a pod runs. If the pod has no worker, the
// channel is closed already.
func (p *Pool) Ended(uid pod.UID) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[uid]; w != nil {
		return w.whenEnded()
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// Active returns the pods of which something may run.
func (p *Pool) Active() []*v1.Pod {
	var active []*v1.Pod
	for _, l := range p.Lives() {
		if l.Phase < Terminated {
			active = append(active, l.Pod)
		}
	}
	return active
}

// Revive begins a new life of a pod that a passing cause ended, once the pod is stopped. Any other
// pod is left alone.
func (p *Pool) Revive(uid pod.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[uid]; w != nil {
		w.apply(revive{})
	}
}

// Orphan stops a pod that no source has, and removes all that is left of it. All that is known of
// the pod is what was observed.
func (p *Pool) Orphan(o pod.Observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[o.UID] != nil {
		return
	}
	orphan := &v1.Pod{}
	// Of a pod that left nothing but files, not even the name is known.
	orphan.UID, orphan.Name, orphan.Namespace = o.UID, cmp.Or(o.Name, string(o.UID)), o.Namespace
	grace := int64(0)
	for _, c := range o.Containers {
		grace = max(grace, c.Grace)
	}
	orphan.Spec.TerminationGracePeriodSeconds = &grace
	if name := pod.FullName(orphan); p.nameHolders[name] == "" {
		p.nameHolders[name] = o.UID
	}
	p.start(o.UID, life{pod: orphan}.on(remove{}), nil)
}

// Enqueue asks for another sync of a pod.
func (p *Pool) Enqueue(uid pod.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[uid]; w != nil {
		w.enqueue()
	}
}

// EnqueueAll asks for another sync of every pod.
func (p *Pool) EnqueueAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		w.enqueue()
	}
}

// Life is a copy of the state of a worker.
type Life struct {
	Pod     *v1.Pod
	Phase   Phase
	Removed bool
	Cause   pod.Cause // of its end, if it is ending
}

// Lives returns the pods that have a worker.
func (p *Pool) Lives() map[pod.UID]Life {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[pod.UID]Life, len(p.workers))
	for uid, w := range p.workers {
		out[uid] = w.snapshot()
	}
	return out
}

// Life returns the entry of Lives for one pod, and false if the pod has no worker.
func (p *Pool) Life(uid pod.UID) (Life, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.workers[uid]
	if w == nil {
		return Life{}, false
	}
	return w.snapshot(), true
}

// start starts a worker. The caller holds the lock.
func (p *Pool) start(uid pod.UID, l life, earlierRestarts map[string]int32) {
	w := &worker{pool: p, uid: uid, wake: make(chan struct{}, 1), life: l, ended: make(chan struct{}), earlierRestarts: earlierRestarts}
	p.workers[uid] = w
	w.enqueue()
	p.group.Go("worker "+string(uid), func(ctx context.Context) {
		w.run(ctx)
		if ctx.Err() == nil {
			p.removeWorker(w)
			p.PodGone(ctx, uid)
		}
	})
}

// removeWorker removes a worker whose pod is gone, and starts the pod that waited for that: the
// same pod added again, or the next static pod of its name.
func (p *Pool) removeWorker(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.workers, w.uid)
	l := w.current()
	name := pod.FullName(l.pod)
	next := l.next
	if p.nameHolders[name] == w.uid {
		delete(p.nameHolders, name)
		if queued := p.nameQueue[name]; queued != nil {
			delete(p.nameQueue, name)
			next = queued
		}
	}
	if next == nil {
		return
	}
	if pod.IsStatic(next) {
		p.nameHolders[name] = next.UID
	}
	if next.UID != w.uid {
		p.start(next.UID, newLife(next), nil)
		return
	}
	if p.Restarted != nil {
		p.Restarted(next)
	}
	p.start(next.UID, newLife(next), w.nextRestarts)
}
