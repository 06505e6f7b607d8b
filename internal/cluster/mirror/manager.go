package mirror

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

var (
	// awayPause is the pause after a request without an answer of the API server.
	awayPause = backoff.Exponential{First: 250 * time.Millisecond, Max: 4 * time.Second}
	// refusedPause is the pause after a request that the API server refused.
	refusedPause = backoff.Exponential{First: time.Second, Max: time.Minute}
)

// Config configures a Manager.
type Config struct {
	Client corev1.PodsGetter // clientset.CoreV1()
	// Node returns this Node as the API server has it, or nil if it is not registered. It is called
	// often, and must make no request.
	Node func() *v1.Node
	Log  *slog.Logger
}

// Manager keeps the mirror pods. It remembers the newest desired state for each name until the API
// server has it.
type Manager struct {
	Config
	wake chan struct{} // capacity 1: a task was added

	mu    sync.Mutex
	tasks map[string]*task // by full name: the desired states that the API server does not have yet
	order []string         // names of tasks, the next one first; each at most once
}

// desired is the desired state of one mirror pod.
type desired struct {
	static *v1.Pod // the static pod to be mirrored; nil: the mirror pod is to be deleted
	mirror *v1.Pod // the mirror pod as it was last seen; nil: it was not
}

// same reports whether two desired states lead to the same requests.
func (w desired) same(o desired) bool { return w.static == o.static && w.mirror == o.mirror }

// task is a desired state that the API server does not have yet. Manager.mu guards it.
type task struct {
	desired  desired
	refusals int // in a row
	streak   logonce.Streak
	retry    *time.Timer
}

func (t *task) stopWaiting() {
	if t.retry != nil {
		t.retry.Stop()
		t.retry = nil
	}
}

// New returns a manager, which does nothing until Run.
func New(c Config) (*Manager, error) {
	if c.Client == nil || c.Node == nil || c.Log == nil {
		return nil, errors.New("mirror pods: client, node and log are required")
	}
	return &Manager{Config: c, wake: make(chan struct{}, 1), tasks: map[string]*task{}}, nil
}

// Ensure asks for the mirror pod of a static pod. mirror is its mirror pod as it was last seen, or
// nil. Ensure never blocks, and is idempotent: call it whenever something may have changed.
//
// While the node is not registered it has no effect; call it again once it is.
func (m *Manager) Ensure(static, mirror *v1.Pod) {
	node := m.Node()
	if node == nil || node.DeletionTimestamp != nil {
		return
	}
	name := pod.FullName(static)
	if Judge(static, mirror, node) == Keep {
		m.keep(name, mirror)
		return
	}
	m.setDesired(name, desired{static: static, mirror: mirror})
}

// Delete asks for the deletion of a mirror pod whose static pod is gone. It never blocks.
func (m *Manager) Delete(mirror *v1.Pod) {
	m.setDesired(pod.FullName(mirror), desired{mirror: mirror})
}

func (m *Manager) setDesired(name string, w desired) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[name]
	if t == nil {
		t = &task{}
		m.tasks[name] = t
	} else if t.retry != nil && t.desired.same(w) {
		return // the server refused it, and a retry is scheduled
	}
	t.stopWaiting()
	t.desired = w
	m.enqueue(name)
}

// enqueue adds a task to the queue. The caller holds the lock.
func (m *Manager) enqueue(name string) {
	if !slices.Contains(m.order, name) {
		m.order = append(m.order, name)
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// keep drops the task of a name, unless it deletes this very mirror pod: its static pod was removed and added again. The
// deletion comes back as an event, which leads to the next mirror pod.
func (m *Manager) keep(name string, mirror *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[name]
	if t == nil || t.desired.static == nil && t.desired.mirror.UID == mirror.UID {
		return
	}
	t.stopWaiting()
	delete(m.tasks, name)
}

// next returns the name and the desired state of the next task.
func (m *Manager) next() (string, desired, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.order) > 0 {
		name := m.order[0]
		m.order = slices.Delete(m.order, 0, 1)
		if t := m.tasks[name]; t != nil {
			return name, t.desired, true
		}
	}
	return "", desired{}, false
}

// Run makes the requests that bring the API server to the desired states, until the context ends.
func (m *Manager) Run(ctx context.Context) {
	defer m.stop()
	failures, streak := 0, logonce.Streak{}
	for {
		name, w, ok := m.next()
		if !ok {
			select {
			case <-m.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := m.perform(ctx, w)
		if ctx.Err() != nil {
			return
		}
		if !isAway(err) {
			if streak.Recovered() {
				m.Log.Info("mirror pods get to the API server again")
			}
			failures = 0
			m.settle(name, w, err)
			continue
		}
		failures++
		if streak.Failed(time.Now()) {
			m.Log.Warn("mirror pods do not get to the API server; trying again", "err", err)
		}
		m.mu.Lock()
		m.enqueue(name)
		m.mu.Unlock()
		if run.Sleep(ctx, awayPause.Jittered(failures)) != nil {
			return
		}
	}
}

func (m *Manager) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tasks {
		t.stopWaiting()
	}
}

// settle handles the API server's answer to the requests of a task. A refusal may be temporary (the namespace is
// created later, the node is registered later), so the request is made again, rarely. The same
// refusal is logged once.
func (m *Manager) settle(name string, w desired, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[name]
	switch {
	case t == nil || !t.desired.same(w): // there is a newer state, or none
	case err == nil:
		delete(m.tasks, name)
	default:
		if t.streak.FailedAs(err.Error(), time.Now()) {
			m.Log.Warn("the API server refuses a mirror pod; its static pod runs all the same", "err", err)
		}
		t.refusals++
		t.retry = time.AfterFunc(refusedPause.Jittered(t.refusals), func() { m.again(name, t) })
	}
}

func (m *Manager) again(name string, t *task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.retry != nil && m.tasks[name] == t {
		t.retry = nil
		m.enqueue(name)
	}
}
