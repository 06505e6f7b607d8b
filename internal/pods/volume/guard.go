package volume

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/internal/lib/pod"
)

// guard runs whatever touches file systems. The kernel may keep such a call for
// as long as it likes (a dead server behind NFS or FUSE), and nothing in a process
// can take it back. So each runs in a goroutine of its own, at most one per pod,
// and who waits for it gives up after a while. The next one who wants something of
// the same pod waits for the same call, so a hanging file system costs one
// goroutine per pod, however often it is tried. It can't be joined at the end of
// the process, which is why it does not belong to a run.Group.
type guard struct {
	timeout time.Duration

	mu   sync.Mutex
	busy map[pod.UID]*task
}

func newGuard(patience time.Duration) *guard {
	return &guard{timeout: patience, busy: map[pod.UID]*task{}}
}

// task is what is being done for one pod.
type task struct {
	done chan struct{}

	mu         sync.Mutex
	step       string
	since      time.Time
	abandoned  bool   // the pod is to go
	cancelLong func() // what takes long; nil: nothing does
}

// setStep notes what is being done from now on, for those who wait.
func (t *task) setStep(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step, t.since = what, time.Now()
}

// withLongTimeout is the context of what may take longer than anybody waits for it. It goes on
// meanwhile, until the limit, or until the pod is to go.
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

// abandon ends what takes long.
func (t *task) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandoned = true
	if t.cancelLong != nil {
		t.cancelLong()
	}
}

// HungError says what did not come to an end. Its text stays the same for as long as
// it hangs, so that it is one thing to those who read of it again and again.
type HungError struct {
	What  string
	Since time.Time
}

func (e *HungError) Error() string {
	return fmt.Sprintf("%s: not done since %s", e.What, timestamp(e.Since))
}

// timestamp is a moment as users read it.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (t *task) wait(ctx context.Context, patience <-chan time.Time) error {
	select {
	case <-t.done:
		return nil
	case <-patience:
		t.mu.Lock()
		defer t.mu.Unlock()
		return &HungError{What: t.step, Since: t.since}
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Errorf("%s: %w", t.step, ctx.Err())
	}
}

// guarded runs f for a pod. It goes on when the caller gives up: half of a change
// of ownership would have to be begun again. The context of f ends with the
// patience, and is for what may be given up; see task.long for what may not.
func guarded[T any](ctx context.Context, g *guard, uid pod.UID, f func(context.Context, *task) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	patience := time.NewTimer(g.timeout)
	defer patience.Stop()
	t := &task{done: make(chan struct{}), step: "begin", since: time.Now()}
	for {
		before := g.enter(uid, t)
		if before == nil {
			break
		}
		if err := before.wait(ctx, patience.C); err != nil {
			return none, err
		}
	}
	var value T
	var err error
	go func() {
		defer g.leave(uid, t) // after it, value and err are the caller's
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.timeout)
		defer cancel()
		value, err = f(ctx, t)
	}()
	if err := t.wait(ctx, patience.C); err != nil {
		return none, err
	}
	return value, err
}

// enter makes t the task of a pod, unless there is one: then it returns that.
func (g *guard) enter(uid pod.UID, t *task) *task {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before := g.busy[uid]; before != nil {
		return before
	}
	g.busy[uid] = t
	return nil
}

// abandon ends what takes long for a pod that is to go.
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
