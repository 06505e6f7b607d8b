package bundle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/host/proc"
	"berth/internal/lib/run"
)

// fakeProcess ends when a test ends it, or when it is killed.
type fakeProcess struct {
	ended     chan error
	immortal  bool // it is stuck in the kernel
	killCount atomic.Int32
}

func (p *fakeProcess) pid() int { return 1 }

func (p *fakeProcess) kill() error {
	p.killCount.Add(1)
	if !p.immortal {
		p.ended <- errors.New("signal: killed")
	}
	return nil
}

func (p *fakeProcess) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-p.ended:
		return err
	}
}

// fakeLauncher records the times of its starts.
type fakeLauncher struct {
	began   time.Time
	running *fakeProcess  // to be adopted
	fails   time.Duration // from the beginning
	started chan *fakeProcess

	mu    sync.Mutex
	times []time.Duration
}

func newFakeLauncher() *fakeLauncher {
	return &fakeLauncher{began: time.Now(), started: make(chan *fakeProcess, 100)}
}

func (l *fakeLauncher) adopt() (process, error) {
	if l.running == nil {
		return nil, nil
	}
	p := l.running
	l.running = nil
	return p, nil
}

func (l *fakeLauncher) start() (process, error) {
	l.mu.Lock()
	l.times = append(l.times, time.Since(l.began))
	l.mu.Unlock()
	if time.Since(l.began) < l.fails {
		return nil, errors.New("no such program")
	}
	p := &fakeProcess{ended: make(chan error, 1)}
	l.started <- p
	return p, nil
}

// starts returns the times of the starts, counted from the beginning.
func (l *fakeLauncher) starts() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.times)
}

// recorder records the calls and the log of a supervisor, in order.
type recorder struct {
	mu    sync.Mutex
	words []string
}

func (w *recorder) record(word string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.words = append(w.words, word)
}

func (w *recorder) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.words, " ")
}

// Write makes it the log, too: of a record, the message is of interest.
func (w *recorder) Write(p []byte) (int, error) {
	w.record(string(p))
	return len(p), nil
}

func supervised(l *fakeLauncher, w *recorder) supervisor {
	return supervisor{
		launcher:      l,
		ready:         func(context.Context) error { return nil },
		answers:       func(context.Context) error { return nil },
		silence:       3 * time.Minute,
		startServices: func(*run.Group) <-chan struct{} { return closed() },
		up:            func() { w.record("up") },
		down:          func(error) { w.record("down") },
		log:           slog.New(slog.DiscardHandler),
	}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// within runs a supervisor in the background until the test is over.
func within(t *testing.T, s supervisor) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

func TestDeadRuntimeIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newFakeLauncher(), &recorder{}
		stop := within(t, supervised(l, w))
		first := <-l.started
		synctest.Wait() // until it is up
		first.ended <- errors.New("killed")
		second := <-l.started
		synctest.Wait()
		if w.String() != "up down up" {
			t.Errorf("reported: %s", w)
		}
		if l.starts()[1] != 0 {
			t.Errorf("the second start came after %s", l.starts()[1])
		}
		// When the agent ends, the runtime stays, and down is not called.
		stop()
		if w.String() != "up down up" || len(second.ended) != 0 {
			t.Errorf("reported: %s", w)
		}
	})
}

func TestRunningRuntimeIsAdoptedAndNotDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newFakeLauncher(), &recorder{}
		old := &fakeProcess{ended: make(chan error, 1)}
		l.running = old
		stop := within(t, supervised(l, w))
		synctest.Wait()
		if w.String() != "up" || len(l.starts()) != 0 {
			t.Fatalf("reported: %s, starts: %v", w, l.starts())
		}
		old.ended <- proc.ErrGone
		<-l.started
		synctest.Wait()
		if w.String() != "up down up" || len(l.starts()) != 1 {
			t.Errorf("reported: %s, starts: %v", w, l.starts())
		}
		stop()
	})
}

func TestRuntimeThatDoesNotComeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a program that can't be started for a while
		l, w, log := newFakeLauncher(), &recorder{}, &recorder{}
		l.fails = 2 * time.Minute
		s := supervised(l, w)
		s.log = slog.New(slog.NewTextHandler(log, nil))
		stop := within(t, s)

		// when almost two minutes pass
		time.Sleep(2*time.Minute - time.Second)
		synctest.Wait()

		// then it was tried at growing intervals, and the log says so once
		want := []time.Duration{0, 0, 1, 3, 7, 15, 31, 61, 91}
		for i := range want {
			want[i] *= time.Second
		}
		if got := l.starts(); !slices.Equal(got, want) {
			t.Errorf("started at %v, want %v", got, want)
		}
		if n := strings.Count(log.String(), "does not come up"); n != 1 {
			t.Errorf("log has %d lines: %s", n, log)
		}
		// when it can be started, then the log says that, too
		<-l.started
		synctest.Wait()
		if w.String() != "up" || !strings.Contains(log.String(), "up again") {
			t.Errorf("reported: %s, log: %s", w, log)
		}
		stop()
	})
}

func TestHealthResetsTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newFakeLauncher(), &recorder{}
		stop := within(t, supervised(l, w))
		// given one that died three times in a row
		for range 3 {
			(<-l.started).ended <- errors.New("killed")
		}
		// when it is well for a minute, and dies
		p := <-l.started
		time.Sleep(healthyAfter)
		died := time.Since(l.began)
		p.ended <- errors.New("killed")
		<-l.started
		// then it is started at once
		starts := l.starts()
		if last := starts[len(starts)-1]; last != died {
			t.Errorf("died at %s, started at %s", died, last)
		}
		stop()
	})
}

func TestUpWaitsForReadinessAndImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newFakeLauncher(), &recorder{}
		s := supervised(l, w)
		readyAt := time.Now().Add(3 * time.Second)
		s.ready = func(context.Context) error {
			if time.Now().Before(readyAt) {
				return errors.New("not yet")
			}
			return nil
		}
		images := make(chan struct{})
		s.startServices = func(*run.Group) <-chan struct{} { return images }
		stop := within(t, s)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if w.String() != "" {
			t.Errorf("reported before the images are there: %s", w)
		}
		// images that take for ever do not keep everything else from starting
		time.Sleep(firstImportTimeout)
		synctest.Wait()
		if w.String() != "up" {
			t.Errorf("reported: %s", w)
		}
		stop()
	})
}

func TestDeathWhileNotReadyIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newFakeLauncher(), &recorder{}
		s := supervised(l, w)
		s.ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } // hangs
		stop := within(t, s)
		(<-l.started).ended <- errors.New("exit status 1")
		<-l.started
		if l.starts()[1] != 0 || w.String() != "" {
			t.Errorf("starts %v, reported: %s", l.starts(), w)
		}
		stop()
	})
}

// hang lets no question be answered.
func hang(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestASilentRuntimeIsKilledAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given one that is up, and stops answering after ten minutes
		l, w, log := newFakeLauncher(), &recorder{}, &recorder{}
		s := supervised(l, w)
		s.log = slog.New(slog.NewTextHandler(log, nil))
		hangs := time.Now().Add(10 * time.Minute)
		s.answers = func(ctx context.Context) error {
			if time.Now().After(hangs) && len(l.starts()) == 1 {
				return hang(ctx)
			}
			return nil
		}
		stop := within(t, s)
		first := <-l.started
		time.Sleep(12 * time.Minute)
		synctest.Wait()
		if first.killCount.Load() != 0 || w.String() != "up" {
			t.Fatalf("killed %d times, reported: %s", first.killCount.Load(), w)
		}
		// then it is killed after three minutes of silence, and another one is started
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if first.killCount.Load() != 1 || w.String() != "up down up" || len(l.starts()) != 2 {
			t.Errorf("killed %d times, reported: %s, starts: %v", first.killCount.Load(), w, l.starts())
		}
		if killed := l.starts()[1] - 10*time.Minute; killed < 3*time.Minute || killed > 4*time.Minute {
			t.Errorf("killed after %s of silence", killed)
		}
		if !strings.Contains(log.String(), "does not answer: killing it") || !strings.Contains(log.String(), "it did not answer for 3m") {
			t.Errorf("log: %s", log)
		}
		stop()
	})
}

func TestABusyRuntimeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given one that answers one question of many, and late
		l, w := newFakeLauncher(), &recorder{}
		s := supervised(l, w)
		asked := 0
		s.answers = func(ctx context.Context) error {
			if asked++; asked%3 != 0 {
				return hang(ctx)
			}
			return run.Sleep(ctx, 20*time.Second)
		}
		stop := within(t, s)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(l.starts()) != 1 || w.String() != "up" {
			t.Errorf("starts: %v, reported: %s", l.starts(), w)
		}
		stop()
	})
}

func TestARuntimeThatIsStuckInTheKernelDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given one that does not answer, and does not die either
		l, w, log := newFakeLauncher(), &recorder{}, &recorder{}
		stuck := &fakeProcess{ended: make(chan error, 1), immortal: true}
		l.running = stuck
		s := supervised(l, w)
		s.log = slog.New(slog.NewTextHandler(log, nil))
		s.answers = func(ctx context.Context) error {
			if len(l.starts()) == 0 {
				return hang(ctx)
			}
			return nil
		}
		s.ready = s.answers
		stop := within(t, s)
		time.Sleep(time.Hour)
		synctest.Wait()
		// then no other is started beside it, and the log says why, once
		if stuck.killCount.Load() != 1 || len(l.starts()) != 0 || strings.Count(log.String(), "still there") != 1 {
			t.Errorf("killed %d times, starts: %v, log: %s", stuck.killCount.Load(), l.starts(), log)
		}
		// when the kernel lets it go, then another one comes up at once
		stuck.ended <- proc.ErrGone
		<-l.started
		synctest.Wait()
		if w.String() != "up" {
			t.Errorf("reported: %s", w)
		}
		stop()
	})
}

func TestARuntimeThatNeverAnswersIsGivenMoreTimeEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newFakeLauncher(), &recorder{}
		s := supervised(l, w)
		s.answers, s.ready = hang, hang
		stop := within(t, s)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		var lives []time.Duration
		for i, at := range l.starts()[1:] {
			lives = append(lives, (at - l.starts()[i]).Round(time.Minute))
		}
		if want := []time.Duration{3, 6, 12, 24, 24, 24}; len(lives) < len(want) || !aboutMinutes(lives, want) {
			t.Errorf("lives of %v, want minutes of %d", lives, want)
		}
		stop()
	})
}

// aboutMinutes reports whether durations are so many minutes, or up to half as much more. Delays between two lives and the time of
// one question come on top.
func aboutMinutes(got []time.Duration, minutes []time.Duration) bool {
	for i, want := range minutes {
		if want *= time.Minute; got[i] < want || got[i] > want+want/2 {
			return false
		}
	}
	return true
}
