// Package shutdown stops the pods of a machine that shuts down or is drained: group after group,
// the lowest priorities first, each within its period.
//
// The Manager alone decides whether this node is open for pods. It closes the gate before the first
// pod is stopped, and opens it again when a drain is undone or a shutdown is cancelled. Pods of an
// API server that were stopped stay ended, static pods run again. One run at a time stops pods: a
// shutdown of the machine interrupts a drain.
//
// The Watcher gets shutdowns from systemd's logind and delays them until the pods have stopped. It
// writes /etc/systemd/logind.conf.d/99-berth.conf if logind would not wait for long enough. It is
// used only with periods in the configuration; a drain works without.
package shutdown

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Pods ends the pods of this node. See worker.Pool.
type Pods interface {
	// Active returns the pods that may have running containers.
	Active() []*v1.Pod
	// End asks for the end of a pod. It does not wait.
	End(uid pod.UID, grace *int64, cause pod.Cause)
	// Ended returns a channel that is closed once nothing of a pod runs.
	Ended(uid pod.UID) <-chan struct{}
}

// Gate decides whether pods may start. It is the sync loop: see agent.Agent.
type Gate interface {
	// Hold lets no pod start from its return on: those of an API server are
	// rejected, static ones wait. It may be called again, with another cause.
	Hold(ctx context.Context, cause pod.Cause) error
	// Resume undoes Hold. Static pods that a passing cause ended run again.
	Resume(ctx context.Context) error
}

// Config configures a Manager.
type Config struct {
	Pods Pods
	Gate Gate
	Log  *slog.Logger
	// Periods are the periods of a shutdown of the machine, as returned by the function Periods. A
	// drain has groups of the same priorities, without their limits.
	Periods []Period
	// Show is called with the reason why this node takes no pods, and with nil when it takes pods
	// again. May be nil.
	Show func(why error)
	// Began and Ended are called when a shutdown of the machine begins to stop pods, and when it has stopped them or
	// given up. May be nil.
	Began, Ended func(time.Time)
}

// Manager stops the pods of a machine.
type Manager struct {
	Config
	turn chan struct{} // holds a value while a drain or a shutdown runs

	mu      sync.Mutex
	drained bool                    // a drain was requested, and not undone
	down    bool                    // the machine goes down
	stop    context.CancelCauseFunc // of the present run; nil: there is none
	closed  error                   // why the node takes no pods; nil: it takes pods
}

// New returns a manager. The node is open at first.
func New(c Config) (*Manager, error) {
	if c.Pods == nil || c.Gate == nil || c.Log == nil {
		return nil, errors.New("shutdown: pods, gate and log are required")
	}
	if c.Show == nil {
		c.Show = func(error) {}
	}
	if c.Began == nil {
		c.Began = func(time.Time) {}
	}
	if c.Ended == nil {
		c.Ended = func(time.Time) {}
	}
	return &Manager{Config: c, turn: make(chan struct{}, 1)}, nil
}

// Order has the options of a drain.
type Order struct {
	Grace      *int64        // how many seconds a pod may take at most; nil: as many as it asks for
	Timeout    time.Duration // how long to wait for all pods; 0: without a limit
	KeepStatic bool          // static pods keep running
}

// Drain closes the gate and stops the pods. It returns the pods that have not ended when the time
// is over. If ctx ends, or the drain is undone, no more pods are stopped, and the gate stays as it
// is.
func (m *Manager) Drain(ctx context.Context, o Order, report func(Progress)) (late []string, err error) {
	select {
	case m.turn <- struct{}{}:
	default:
		return nil, m.busy()
	}
	ctx, end, err := m.start(ctx, func() error {
		if m.down {
			return ErrGoingDown
		}
		m.drained = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.close(ctx, drained(), errDrained); err != nil {
		return nil, err
	}
	var pods []*v1.Pod
	for _, p := range m.Pods.Active() {
		if !o.KeepStatic || !pod.IsStatic(p) {
			pods = append(pods, p)
		}
	}
	return m.stopAll(ctx, Plan(pods, m.drainPeriods()), drained(), o, report)
}

// busy returns the error of a drain while another run has the turn.
func (m *Manager) busy() error {
	if m.ShuttingDown() {
		return ErrGoingDown
	}
	return ErrBusy
}

// drainPeriods returns the periods of the configuration without their limits.
func (m *Manager) drainPeriods() []Period {
	if len(m.Periods) == 0 {
		return []Period{{0, forever}, {clusterCritical, forever}}
	}
	var periods []Period
	for _, p := range m.Periods {
		periods = append(periods, Period{p.Priority, forever})
	}
	return periods
}

// Undo ends a drain and opens the gate. Without a drain it does nothing.
func (m *Manager) Undo(ctx context.Context) error {
	return m.open(ctx, errUndone, func() error {
		if m.down {
			return ErrGoingDown
		}
		m.drained = false
		return nil
	})
}

// Shutdown closes the gate and stops all pods, within the periods of the configuration. It
// interrupts a drain.
func (m *Manager) Shutdown(ctx context.Context) (late []string, err error) {
	if len(m.Periods) == 0 {
		return nil, errNoPeriods
	}
	m.goDown()
	return m.stopForShutdown(ctx)
}

// goDown records that the machine shuts down. It does not wait.
func (m *Manager) goDown() {
	_ = m.change(ErrGoingDown, func() error { m.down = true; return nil })
}

// stopForShutdown waits for its turn, and stops all pods unless the shutdown was cancelled
// meanwhile.
func (m *Manager) stopForShutdown(ctx context.Context) (late []string, err error) {
	if err := m.acquireTurn(ctx); err != nil {
		return nil, err
	}
	ctx, end, err := m.start(ctx, func() error {
		if !m.down {
			return errCancelled
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.close(ctx, goesDown(), errPrepares); err != nil {
		return nil, err
	}
	m.Began(time.Now())
	defer func() { m.Ended(time.Now()) }()
	return m.stopAll(ctx, Plan(m.Pods.Active(), m.Periods), goesDown(), Order{}, func(Progress) {})
}

// Cancel says that the shutdown of the machine was cancelled. A node that was drained before stays
// drained.
func (m *Manager) Cancel(ctx context.Context) error {
	return m.open(ctx, errCancelled, func() error { m.down = false; return nil })
}

// ShuttingDown reports whether the machine is shutting down, as far as is known.
func (m *Manager) ShuttingDown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.down
}

// change sets why the gate is closed, and interrupts the present run.
func (m *Manager) change(why error, set func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := set(); err != nil {
		return err
	}
	if m.stop != nil {
		m.stop(why)
	}
	return nil
}

// acquireTurn waits until no other drain or shutdown runs.
func (m *Manager) acquireTurn(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// start makes the turn that was acquired into a run that can be interrupted, unless check, which is
// called under the lock, returns an error.
func (m *Manager) start(ctx context.Context, check func() error) (context.Context, func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := check(); err != nil {
		<-m.turn
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	m.stop = cancel
	return ctx, func() {
		m.mu.Lock()
		m.stop = nil
		m.mu.Unlock()
		cancel(nil)
		<-m.turn
	}, nil
}

func (m *Manager) close(ctx context.Context, cause pod.Cause, why error) error {
	if err := m.Gate.Hold(ctx, cause); err != nil {
		return err
	}
	m.setClosed(why)
	return nil
}

// open changes why the gate is closed, and opens it if there is no reason left.
func (m *Manager) open(ctx context.Context, why error, set func() error) error {
	if err := m.change(why, set); err != nil {
		return err
	}
	if err := m.acquireTurn(ctx); err != nil {
		return err
	}
	defer func() { <-m.turn }()
	m.mu.Lock()
	isDrained, isDown := m.drained, m.down
	m.mu.Unlock()
	switch {
	case isDown:
		return nil // the gate stays closed for the shutdown that waits for its turn
	case isDrained:
		return m.close(ctx, drained(), errDrained)
	}
	if err := m.Gate.Resume(ctx); err != nil {
		return err
	}
	m.setClosed(nil)
	return nil
}

func (m *Manager) setClosed(why error) {
	m.mu.Lock()
	m.closed = why
	m.mu.Unlock()
	m.Show(why)
}

// Closed returns why this node takes no pods, or nil if it takes pods.
func (m *Manager) Closed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}
