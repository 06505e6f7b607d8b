package systemd

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// session is one connection to systemd, for one operation.
type session struct {
	ctx  context.Context //nolint:containedctx // it is that of the operation
	conn *dbus.Conn
	jobs jobResults
}

// jobResult is the result of a job of systemd.
type jobResult struct {
	job    dbus.ObjectPath
	result string
}

// jobResults holds the results of jobs that ended since the session began, also those of other
// units.
type jobResults chan jobResult

// pendingResults bounds the results that wait until the session reads them.
const pendingResults = 1024

// DeliverSignal implements dbus.SignalHandler. The goroutine that reads from the connection calls
// it, so it never blocks.
func (r jobResults) DeliverSignal(_, name string, signal *dbus.Signal) {
	if name != jobRemoved || len(signal.Body) != 4 { // id, job, unit, result
		return
	}
	job, isPath := signal.Body[1].(dbus.ObjectPath)
	result, isText := signal.Body[3].(string)
	if !isPath || !isText {
		return
	}
	select {
	case r <- jobResult{job, result}:
	default: // the operation will time out, and be repeated
	}
}

// do runs an operation in a session of its own.
func (m *Manager) do(ctx context.Context, what string, operation func(*session) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return fmt.Errorf("systemd: %s: other operations have not ended: %w", what, ctx.Err())
	}
	s := &session{ctx: ctx, jobs: make(jobResults, pendingResults)}
	var err error
	if s.conn, err = m.cfg.Dial(ctx, s.jobs); err != nil {
		return fmt.Errorf("systemd: %s: connect: %w", what, err)
	}
	defer func() { _ = s.conn.Close() }()
	if err := operation(s); err != nil {
		return fmt.Errorf("systemd: %s: %w", what, err)
	}
	return nil
}

// call calls a method of systemd without a result.
func (s *session) call(method string, args ...any) error {
	return s.conn.Object(busName, objectPath).CallWithContext(s.ctx, iface+"."+method, 0, args...).Err
}

// job calls a method that queues a job, and waits until the job has ended.
func (s *session) job(method string, args ...any) error {
	if err := s.call("Subscribe"); err != nil { // else systemd sends no signals
		return err
	}
	var job dbus.ObjectPath
	if err := s.conn.Object(busName, objectPath).CallWithContext(s.ctx, iface+"."+method, 0, args...).Store(&job); err != nil {
		return err
	}
	for {
		select {
		case ended := <-s.jobs:
			if ended.job != job {
				continue
			}
			if ended.result != jobDone {
				return fmt.Errorf("%s ended as %s", method, ended.result)
			}
			return nil
		case <-s.ctx.Done():
			return fmt.Errorf("%s has not ended: %w", method, context.Cause(s.ctx))
		}
	}
}
