package volume

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/internal/lib/pod"
)

// guard runs everything that touches file systems. The kernel may block such a call for as long as it
// likes (a dead server behind NFS or FUSE), and a process can't interrupt it. So each call runs in a
// goroutine of its own, at most one per pod, and its caller returns after a timeout. The next caller
// for the same pod waits for the same goroutine: a file system that hangs costs one goroutine per pod,
// however often it is tried. That goroutine can't be joined when the process ends, so it does not
// belong to a run.Group.
type guard struct {
	timeout time.Duration

	mu   sync.Mutex
	busy map[pod.UID]*task
}

func newGuard(timeout time.Duration) *guard {
	return &guard{timeout: timeout, busy: map[pod.UID]*task{}}
}

// task is the call that runs for one pod.
type task struct {
	done chan struct{}

	mu         sync.Mutex
	step       string
	since      time.Time
	abandoned  bool   // the pod is being deleted
	cancelLong func() // of the context of withLongTimeout; nil: there is none
}

// setStep describes the current step, for the error of callers that give up.
func (t *task) setStep(step string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step, t.since = step, time.Now()
}

// withLongTimeout returns a context for an operation that may take longer than callers wait. It ends
// after the limit, or when the pod is deleted.
func (t *task) withLongTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		cancel()
	}
	t.cancelLong = cancel
	return ctx, cancel
}

// abandon cancels an operation that runs with a long timeout.
func (t *task) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandoned = true
	if t.cancelLong != nil {
		t.cancelLong()
	}
}

// HungError is the failure of a call that did not return within the timeout. Its text stays the same
// while the call hangs, so that it is one event.
type HungError struct {
	What  string
	Since time.Time
}

func (e *HungError) Error() string {
	return fmt.Sprintf("%s: not done since %s", e.What, timestamp(e.Since))
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (t *task) wait(ctx context.Context, timeout <-chan time.Time) error {
	select {
	case <-t.done:
		return nil
	case <-timeout:
		t.mu.Lock()
		defer t.mu.Unlock()
		return &HungError{What: t.step, Since: t.since}
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Errorf("%s: %w", t.step, ctx.Err())
	}
}

// guarded runs f for a pod. f goes on after the caller gave up, since half of a change of ownership
// would have to be begun again. The context of f ends after the timeout; see task.withLongTimeout for
// an operation that may take longer.
func guarded[T any](ctx context.Context, g *guard, uid pod.UID, f func(context.Context, *task) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	timeout := time.NewTimer(g.timeout)
	defer timeout.Stop()
	t := &task{done: make(chan struct{}), step: "begin", since: time.Now()}
	for {
		before := g.enter(uid, t)
		if before == nil {
			break
		}
		if err := before.wait(ctx, timeout.C); err != nil {
			return none, err
		}
	}
	var value T
	var err error
	go func() {
		defer g.leave(uid, t) // from then on, value and err are the caller's
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.timeout)
		defer cancel()
		value, err = f(ctx, t)
	}()
	if err := t.wait(ctx, timeout.C); err != nil {
		return none, err
	}
	return value, err
}

// enter makes t the task of a pod. If the pod has a task, enter returns that one instead.
func (g *guard) enter(uid pod.UID, t *task) *task {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before := g.busy[uid]; before != nil {
		return before
	}
	g.busy[uid] = t
	return nil
}

// abandon cancels the long operation of a pod that is being deleted, if there is one.
func (g *guard) abandon(uid pod.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.busy[uid]; t != nil {
		t.abandon()
	}
}

func (g *guard) leave(uid pod.UID, t *task) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, uid)
	close(t.done)
}
