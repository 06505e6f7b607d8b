package bundle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"berth/internal/host/proc"
	"berth/internal/lib/backoff"
	"berth/internal/lib/run"
)

// supervisor keeps one containerd alive:
//
//	adopt or start ──▶ wait until ready ──▶ startServices ──▶ up ──▶ wait for its end ──▶ down ─┐
//	       ▲                                                                                    │
//	       └──────────────────────────────── at once, then with growing delay ◀─────────────────┘
//
// All the while containerd is polled. If it does not answer for the whole of silence, it is
// killed, which is an end like any other: its containers outlive it.
type supervisor struct {
	launcher interface {
		adopt() (process, error) // nil if none runs
		start() (process, error)
	}
	ready func(context.Context) error
	// answers makes a call that containerd answers at once in any state. It fails if there is
	// no answer before ctx ends.
	answers func(context.Context) error
	silence time.Duration // without any answer: then containerd is killed

	// startServices starts the goroutines that go along with one run of containerd. The
	// channel that it returns is closed when pods may start.
	startServices func(*run.Group) <-chan struct{}
	up            func()
	down          func(cause error)
	log           *slog.Logger
}

func (s *supervisor) run(ctx context.Context) {
	var pause time.Duration // before the next start
	silence := s.silence
	failing := false // no logonce.Streak: each end of a containerd that was up is logged
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
		if healthy >= healthyAfter {
			pause = 0
		}
		// A containerd that was killed before it ever answered may need more time to come up.
		if !wasUp && errors.Is(err, errSilent) {
			silence = backoff.Exponential{First: s.silence, Max: maxSilences * s.silence}.Next(silence)
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
		if run.Sleep(ctx, pause) != nil {
			return
		}
		pause = restartPause.Next(pause)
	}
}

// runOnce adopts or starts containerd, and returns when it has ended. It returns whether and
// for how long containerd was up, and the cause of its end.
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
		timeout := time.NewTimer(firstImportTimeout)
		defer timeout.Stop()
		select {
		case <-s.startServices(group):
		case <-timeout.C:
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

// obtain returns the containerd that runs already, or starts one: there are never two.
func (s *supervisor) obtain() (process, error) {
	p, err := s.launcher.adopt()
	if p != nil || err != nil {
		return p, err
	}
	return s.launcher.start()
}

// awaitReady waits until containerd is ready. It returns false if life, the context of this run
// of containerd, ended first.
func (s *supervisor) awaitReady(life context.Context) bool {
	late := time.Now().Add(readyWarnAfter)
	logged := false
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
		if !logged && time.Now().After(late) {
			logged = true
			s.log.Warn("containerd runs, but is not ready", "for", readyWarnAfter, "err", err)
		}
		if run.Sleep(life, readyPollInterval) != nil {
			return false
		}
	}
}

// errSilent is the cause of the end of a containerd that was killed because it did not answer.
var errSilent = errors.New("it did not answer")

// awaitSilence polls containerd until it has answered no call for the whole of silence, and
// returns an errSilent, or until ctx ends. A containerd that is busy answers late: one answer
// to several calls is enough.
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
		if err := run.Sleep(ctx, min(healthPollInterval, silence/minFailures)); err != nil {
			return err
		}
	}
}

// warnIfAlive logs an error if a killed containerd does not end: it is in a system call that
// does not return. No other containerd is started meanwhile, for the two would share their
// files.
func (s *supervisor) warnIfAlive(ctx context.Context, pid int) {
	if run.Sleep(ctx, proc.KillTimeout) == nil {
		s.log.Error("containerd was killed and is still there, stuck in the kernel (a disk that does not answer?): no other is started beside it", "pid", pid)
	}
}
