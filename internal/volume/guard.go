package volume

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/internal/pod"
)

// guard runs whatever touches file systems. The kernel may keep such a call for
// as long as it likes (a dead server behind NFS or FUSE), and nothing in a process
// can take it back. So each runs in a goroutine of its own, at most one per pod,
// and who waits for it gives up after a while. The next one who wants something of
// the same pod waits for the same call, so a hanging file system costs one
// goroutine per pod, however often it is tried. It can't be joined at the end of
// the process, which is why it does not belong to a run.Group.
type guard struct {
	patience time.Duration

	mu   sync.Mutex
	busy map[pod.UID]*task
}

func newGuard(patience time.Duration) *guard {
	return &guard{patience: patience, busy: map[pod.UID]*task{}}
}

// task is what is being done for one pod.
type task struct {
	since time.Time
	done  chan struct{}

	mu   sync.Mutex
	what string
}

// say notes what is being done now, for those who wait.
func (t *task) say(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.what = what
}

// HungError says what did not come to an end.
type HungError struct {
	What string
	For  time.Duration
}

func (e *HungError) Error() string {
	return fmt.Sprintf("%s: not done after %s", e.What, e.For.Round(100*time.Millisecond))
}

func (t *task) wait(ctx context.Context, patience <-chan time.Time) error {
	select {
	case <-t.done:
		return nil
	case <-patience:
		t.mu.Lock()
		defer t.mu.Unlock()
		return &HungError{What: t.what, For: time.Since(t.since)}
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Errorf("%s: %w", t.what, ctx.Err())
	}
}

// guarded runs f for a pod. It goes on when the caller gives up: half of a change
// of ownership would have to be begun again. The context of f ends with the
// patience, and is for what may be given up.
func guarded[T any](ctx context.Context, g *guard, uid pod.UID, f func(context.Context, *task) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	patience := time.NewTimer(g.patience)
	defer patience.Stop()
	t := &task{since: time.Now(), done: make(chan struct{}), what: "begin"}
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.patience)
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

func (g *guard) leave(uid pod.UID, t *task) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, uid)
	close(t.done)
}
