package fake

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/pods/handler"
)

// Hooks implements execute.Hooks. It records the commands of exec hooks, and runs none: SetDuration and
// SetError set how long a hook takes and whether it fails.
type Hooks struct {
	mu        sync.Mutex
	ran       []string
	durations map[string]time.Duration
	errs      map[string]error
	cutShort  map[string]time.Time
}

// SetDuration makes the exec hook with that command take d.
func (h *Hooks) SetDuration(command string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.durations == nil {
		h.durations = map[string]time.Duration{}
	}
	h.durations[command] = d
}

// SetError makes the exec hook with that command fail with err. Nil: it succeeds.
func (h *Hooks) SetError(command string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.errs == nil {
		h.errs = map[string]error{}
	}
	h.errs[command] = err
}

// Ran returns the commands of the exec hooks that were run, in order.
func (h *Hooks) Ran() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ran)
}

// Run implements execute.Hooks.
func (h *Hooks) Run(ctx context.Context, _ handler.Target, handler *v1.LifecycleHandler) error {
	command := handler.Exec.Command[0]
	h.mu.Lock()
	h.ran = append(h.ran, command)
	take, err := h.durations[command], h.errs[command]
	h.mu.Unlock()
	select {
	case <-time.After(take):
		return err
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.cutShort == nil {
			h.cutShort = map[string]time.Time{}
		}
		h.cutShort[command] = time.Now()
		return ctx.Err()
	}
}

// CutShort returns when the exec hook with that command was ended before it was done. Zero: it was not.
func (h *Hooks) CutShort(command string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cutShort[command]
}

// Events implements execute.Events. It keeps each event as "reason message".
type Events struct {
	mu  sync.Mutex
	all []string
}

// Record implements execute.Events.
func (e *Events) Record(_ *v1.Pod, _, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, reason+" "+message)
}

// RecordContainer implements execute.Events.
func (e *Events) RecordContainer(p *v1.Pod, _, kind, reason, message string) {
	e.Record(p, kind, reason, message)
}

// All returns the events so far, in order.
func (e *Events) All() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Upstream implements the Upstream of execute and of agent. It records the calls.
type Upstream struct {
	mu        sync.Mutex
	published map[string]v1.PodStatus
	released  []string

	mirrored   map[string]int
	unmirrored []string
}

// Publish implements execute.Upstream.
func (u *Upstream) Publish(p *v1.Pod, s v1.PodStatus) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.published == nil {
		u.published = map[string]v1.PodStatus{}
	}
	u.published[p.Name] = s
}

// Release implements execute.Upstream.
func (u *Upstream) Release(p *v1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.released = append(u.released, p.Name)
}

// Mirror implements agent.Upstream.
func (u *Upstream) Mirror(static *v1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mirrored == nil {
		u.mirrored = map[string]int{}
	}
	u.mirrored[static.Name]++
}

// Mirrored returns how often Mirror was called for a static pod.
func (u *Upstream) Mirrored(name string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mirrored[name]
}

// Unmirror implements agent.Upstream.
func (u *Upstream) Unmirror(mirror *v1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.unmirrored = append(u.unmirrored, mirror.Name)
}

// Unmirrored returns the names of the mirror pods that Unmirror was called for.
func (u *Upstream) Unmirrored() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.unmirrored)
}

// Forget implements agent.Upstream.
func (u *Upstream) Forget(types.UID) {}

// Published returns the last status that was published for a pod.
func (u *Upstream) Published(name string) v1.PodStatus {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.published[name]
}

// Released returns the names of the pods that Release was called for.
func (u *Upstream) Released() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.released)
}
