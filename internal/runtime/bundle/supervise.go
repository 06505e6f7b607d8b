package bundle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"berth/internal/host/proc"
	"berth/internal/lib/run"
)

// supervisor keeps one containerd alive:
//
//	adopt or start ──▶ wait until ready ──▶ attend ──▶ up ──▶ wait for its end ──▶ down ─┐
//	       ▲                                                                             │
//	       └───────────────────────────── at once, then with growing delay ◀─────────────┘
//
// All the while it is asked whether it answers. One that does not for the whole of silence
// is killed, which is an end like any other: its containers outlive it.
type supervisor struct {
	launcher interface {
		adopt() (process, error) // nil if none runs
		start() (process, error)
	}
	ready func(context.Context) error
	// answers asks a question that a containerd of any state answers at once. It fails if
	// there is no answer before ctx ends.
	answers func(context.Context) error
	silence time.Duration // without any answer: then containerd is killed

	// startServices starts what goes along with one life of containerd; it closes what
	// it returns when pods may start.
	startServices func(*run.Group) <-chan struct{}
	up            func()
	down          func(cause error)
	log           *slog.Logger
}

func (s *supervisor) run(ctx context.Context) {
	var delay backoff
	silence := s.silence
	failing := false // said once when it begins, once when it ends
	for {
		wasUp, healthy, err := s.runOnce(ctx, silence, func() {
			if failing {
				s.log.Info("containerd is up again")
			}
			failing = false
		})
		if ctx.Err() != nil {
			return
		}
		wait := delay.next(healthy)
		// One that is killed before it ever answers may need longer to come up than we wait.
		if !wasUp && errors.Is(err, errSilent) {
			silence = min(2*silence, maxSilences*s.silence)
		} else {
			silence = s.silence
		}
		switch {
		case wasUp:
			s.log.Error("containerd ended: starting it again; its containers go on", "err", err)
		case !failing:
			s.log.Error("containerd does not come up: trying again, at longer and longer intervals; its log says more", "err", err)
		}
		failing = true
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// runOnce goes through one life of containerd. It returns whether and for how long it
// was up, and what ended it.
func (s *supervisor) runOnce(ctx context.Context, silence time.Duration, cameUp func()) (wasUp bool, healthy time.Duration, err error) {
	p, err := s.obtain()
	if err != nil {
		return false, 0, err
	}
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	group := run.NewGroup(life, s.log)
	defer group.Stop()
	killed := make(chan error, 1) // holds the reason before the kill
	group.Go("containerd-wait", func(ctx context.Context) {
		err := p.wait(ctx)
		select {
		case reason := <-killed:
			err = reason
		default:
		}
		end(err)
	})
	group.Go("containerd-health", func(ctx context.Context) {
		err := s.awaitSilence(ctx, silence)
		if !errors.Is(err, errSilent) {
			return
		}
		s.log.Error("containerd does not answer: killing it, its containers go on", "pid", p.pid(), "reason", err)
		killed <- err
		if err := p.kill(); err != nil {
			s.log.Error("can't kill containerd", "pid", p.pid(), "err", err)
		}
		s.warnIfAlive(ctx, p.pid())
	})

	if s.awaitReady(life) {
		patience := time.NewTimer(firstImportTimeout)
		defer patience.Stop()
		select {
		case <-s.startServices(group):
		case <-patience.C:
			s.log.Warn("images take long to import: pods may start before they are there")
		case <-life.Done():
		}
	}
	if life.Err() != nil {
		return false, 0, context.Cause(life)
	}
	since := time.Now()
	cameUp()
	s.up()
	<-life.Done()
	err = context.Cause(life)
	if ctx.Err() == nil {
		s.down(err)
	}
	return true, time.Since(since), err
}

// obtain always looks for a running one first: there are never two.
func (s *supervisor) obtain() (process, error) {
	p, err := s.launcher.adopt()
	if p != nil || err != nil {
		return p, err
	}
	return s.launcher.start()
}

// awaitReady returns false if the life ended before it was ready.
func (s *supervisor) awaitReady(life context.Context) bool {
	late := time.Now().Add(readyWarnAfter)
	said := false
	for {
		check, cancel := context.WithTimeout(life, readyTimeout)
		err := s.ready(check)
		cancel()
		if life.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		if !said && time.Now().After(late) {
			said = true
			s.log.Warn("containerd runs, but is not ready", "for", readyWarnAfter, "err", err)
		}
		select {
		case <-life.Done():
			return false
		case <-time.After(readyPollInterval):
		}
	}
}

// errSilent is why a containerd was killed that did not answer.
var errSilent = errors.New("it did not answer")

// awaitSilence asks until nothing was answered for the whole of silence, and returns an
// errSilent, or until ctx ends. A containerd that is busy answers late: one answer of many
// is enough.
func (s *supervisor) awaitSilence(ctx context.Context, silence time.Duration) error {
	answered := time.Now()
	for failures := 0; ; {
		question, cancel := context.WithTimeout(ctx, silence/minFailures)
		err := s.answers(question)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			answered, failures = time.Now(), 0
		} else if failures++; failures >= minFailures && time.Since(answered) >= silence {
			return fmt.Errorf("%w for %s: %w", errSilent, time.Since(answered).Round(time.Second), err)
		}
		if err := wait(ctx, min(healthPollInterval, silence/minFailures)); err != nil {
			return err
		}
	}
}

// warnIfAlive says so if a process that was killed stays: it is in a system call that does
// not end. No other containerd is started while it is there, for the two would share
// their files.
func (s *supervisor) warnIfAlive(ctx context.Context, pid int) {
	if wait(ctx, proc.KillWait) == nil {
		s.log.Error("containerd was killed and is still there, stuck in the kernel (a disk that does not answer?): no other is started beside it", "pid", pid)
	}
}

// backoff says how long to wait before the next start.
type backoff struct{ delay time.Duration }

// next is zero after the first death, then grows; a life of health makes the
// next death the first again.
func (b *backoff) next(healthy time.Duration) time.Duration {
	if healthy >= healthyAfter {
		b.delay = 0
	}
	wait := b.delay
	b.delay = min(max(2*b.delay, firstRestartDelay), maxRestartDelay)
	return wait
}
