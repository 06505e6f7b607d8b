package bundle

import (
	"context"
	"log/slog"
	"time"

	"berth/internal/run"
)

// supervisor keeps one containerd alive:
//
//	adopt or start ──▶ wait until ready ──▶ attend ──▶ up ──▶ wait for its end ──▶ down ─┐
//	       ▲                                                                             │
//	       └───────────────────────────── at once, then with growing delay ◀─────────────┘
type supervisor struct {
	launcher interface {
		adopt() (process, error) // nil if none runs
		start() (process, error)
	}
	ready func(context.Context) error

	// attend starts what goes along with one life of containerd; it closes what
	// it returns when pods may start.
	attend func(*run.Group) <-chan struct{}
	up     func()
	down   func(cause error)
	log    *slog.Logger
}

func (s *supervisor) run(ctx context.Context) {
	var delay backoff
	failing := false // said once when it begins, once when it ends
	for {
		wasUp, healthy, err := s.live(ctx, func() {
			if failing {
				s.log.Info("containerd is up again")
			}
			failing = false
		})
		if ctx.Err() != nil {
			return
		}
		wait := delay.next(healthy)
		switch {
		case wasUp:
			s.log.Error("containerd ended: starting it again; its containers go on", "cause", err)
		case !failing:
			s.log.Error("containerd does not come up: trying again, at longer and longer intervals; its log says more", "cause", err)
		}
		failing = true
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// live goes through one life of containerd. It returns whether and for how long it
// was up, and what ended it.
func (s *supervisor) live(ctx context.Context, cameUp func()) (wasUp bool, healthy time.Duration, err error) {
	p, err := s.obtain()
	if err != nil {
		return false, 0, err
	}
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	group := run.NewGroup(life, s.log)
	defer group.Stop()
	group.Go("containerd-wait", func(ctx context.Context) { end(p.wait(ctx)) })

	if s.awaitReady(life) {
		patience := time.NewTimer(firstImportWait)
		defer patience.Stop()
		select {
		case <-s.attend(group):
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
	late := time.Now().Add(readyPatience)
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
			s.log.Warn("containerd runs, but is not ready", "for", readyPatience, "error", err)
		}
		select {
		case <-life.Done():
			return false
		case <-time.After(readyPoll):
		}
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
