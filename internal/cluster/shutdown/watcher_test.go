package shutdown

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeLogind is a logind that tests steer.
type fakeLogind struct {
	mu        sync.Mutex
	missing   bool // there is none
	delay     time.Duration
	after     time.Duration // the delay after a reload
	reloads   int
	preparing bool
	locks     int // that are held
	taken     int // that were ever held
	changed   chan bool
	lost      chan struct{}
}

func newLogind(delay time.Duration) *fakeLogind {
	return &fakeLogind{delay: delay, after: delay, changed: make(chan bool, 1), lost: make(chan struct{})}
}

func (l *fakeLogind) connect(context.Context) (Logind, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing {
		return nil, errors.New("no such socket")
	}
	return l, nil
}

func (l *fakeLogind) Delay(context.Context) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay, nil
}

func (l *fakeLogind) Reload(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reloads++
	time.AfterFunc(time.Second, func() { l.mu.Lock(); defer l.mu.Unlock(); l.delay = l.after })
	return nil
}

func (l *fakeLogind) Preparing(context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.preparing, nil
}

func (l *fakeLogind) Changed() <-chan bool { return l.changed }

func (l *fakeLogind) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *fakeLogind) Close() error { return nil }

func (l *fakeLogind) Inhibit(context.Context, string) (io.Closer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locks++
	l.taken++
	return closer(func() { l.mu.Lock(); defer l.mu.Unlock(); l.locks-- }), nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

// signal sends a PrepareForShutdown signal.
func (l *fakeLogind) signal(preparing bool) {
	l.mu.Lock()
	l.preparing = preparing
	l.mu.Unlock()
	l.changed <- preparing
	synctest.Wait()
}

// breaks closes the connection. With missing, new connections fail.
func (l *fakeLogind) breaks(missing bool) {
	l.mu.Lock()
	l.missing = missing
	close(l.lost)
	l.lost = make(chan struct{})
	l.mu.Unlock()
	synctest.Wait()
}

func (l *fakeLogind) held() int {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.locks
}

// watched runs a watcher over a world, until the test ends. It returns its log and
// the file that it writes.
func watched(t *testing.T, w *world, l *fakeLogind) (log *bytes.Buffer, dropIn string) {
	t.Helper()
	log = &bytes.Buffer{}
	dropIn = filepath.Join(t.TempDir(), "logind.conf.d", "99-berth.conf")
	watcher, err := NewWatcher(WatcherConfig{
		Manager: w.manager(t, usual...), Log: slog.New(slog.NewTextHandler(log, nil)), Connect: l.connect, DropIn: dropIn,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); watcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if l.locks != 0 {
			t.Errorf("%d locks are still held", l.locks)
		}
	})
	synctest.Wait()
	return log, dropIn
}

func TestAShutdownIsHeldUpUntilThePodsHaveStopped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0), newPod("dns", 2e9)).needing("web", 7*time.Second)
		l := newLogind(time.Hour)
		_, dropIn := watched(t, w, l)
		if l.held() != 1 {
			t.Fatal("nothing is held up")
		}
		l.signal(true)
		time.Sleep(6 * time.Second)
		if l.held() != 1 {
			t.Fatal("the machine goes down before its pods have stopped")
		}
		time.Sleep(time.Second)
		if l.held() != 0 {
			t.Fatal("the machine is held up by nothing")
		}
		w.expect(t, "0s stop web in 20", "7s stop dns in 10")
		if _, err := os.Stat(dropIn); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("logind is configured to wait for longer than it must: %v", err)
		}
	})
}

func TestPodsThatAreLateDoNotHoldUpAShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0)).needing("web", stuck)
		l := newLogind(time.Hour)
		log, _ := watched(t, w, l)
		l.signal(true)
		time.Sleep(20 * time.Second)
		if l.held() != 0 || !strings.Contains(log.String(), "default/web") {
			t.Fatalf("held %d; log:\n%s", l.held(), log)
		}
	})
}

func TestAShutdownThatIsCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0), newPod("dns", 2e9)).needing("web", 7*time.Second)
		l := newLogind(time.Hour)
		watched(t, w, l)
		// when it is cancelled while pods stop
		l.signal(true)
		time.Sleep(time.Second)
		l.signal(false)
		// then no more of them are stopped, new ones come in, and the next shutdown is held up
		w.expect(t, "0s stop web in 20")
		if gate, shown := w.state(); gate != "open" || shown != nil || l.held() != 1 {
			t.Fatalf("the gate is %s, shown is %v, held %d", gate, shown, l.held())
		}
		time.Sleep(time.Hour)
		// when it is cancelled after they have stopped, then the same
		l.signal(true)
		time.Sleep(time.Minute)
		if l.held() != 0 {
			t.Fatal("the machine is held up by nothing")
		}
		l.signal(false)
		if gate, _ := w.state(); gate != "open" || l.held() != 1 {
			t.Fatalf("the gate is %s, held %d", gate, l.held())
		}
		// when the two come at once, then nothing stays closed
		l.signal(true)
		l.signal(false)
		time.Sleep(time.Minute)
		if gate, _ := w.state(); gate != "open" || l.held() != 1 {
			t.Fatalf("the gate is %s, held %d", gate, l.held())
		}
	})
}

func TestAConnectionThatBreaksDuringAShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0)).needing("web", 7*time.Second)
		l := newLogind(time.Hour)
		watched(t, w, l)
		l.signal(true)
		time.Sleep(time.Second)
		l.breaks(true)
		if l.held() != 1 {
			t.Fatal("the shutdown is no longer held up")
		}
		time.Sleep(6 * time.Second)
		if l.held() != 0 {
			t.Fatal("the machine is held up by nothing")
		}
		// when the shutdown is cancelled while there is no connection, then the next connection
		// finds out
		l.mu.Lock()
		l.missing, l.preparing = false, false
		l.mu.Unlock()
		time.Sleep(time.Minute)
		if gate, _ := w.state(); gate != "open" || l.held() != 1 {
			t.Fatalf("the gate is %s, held %d", gate, l.held())
		}
	})
}

func TestAnAgentThatStartsDuringAShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0))
		l := newLogind(time.Hour)
		l.preparing = true
		watched(t, w, l)
		w.expect(t, "0s stop web in 20")
		if l.held() != 0 {
			t.Error("a lock that comes too late is refused")
		}
	})
}

func TestAMachineWithoutSystemd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0))
		l := newLogind(time.Hour)
		l.missing = true
		log, _ := watched(t, w, l)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if said := strings.Count(log.String(), "\n"); said != 1 || !strings.Contains(log.String(), "berth drain") {
			t.Errorf("it was said %d times:\n%s", said, log)
		}
		l.mu.Lock()
		l.missing = false
		l.mu.Unlock()
		time.Sleep(reconnectPause.Max)
		if l.held() != 1 {
			t.Error("it came late, and nobody noticed")
		}
		if w.expect(t); t.Failed() {
			t.Error("pods were stopped")
		}
	})
}

func TestLogindIsConfiguredToWaitForLonger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLogind(5 * time.Second)
		l.after = 30 * time.Second
		log, dropIn := watched(t, newWorld(), l)
		time.Sleep(2 * time.Second)
		text, err := os.ReadFile(dropIn)
		if err != nil || !strings.Contains(string(text), "[Login]\nInhibitDelayMaxSec=30\n") {
			t.Errorf("got %q, %v", text, err)
		}
		if l.held() != 1 || l.reloads != 1 || strings.Contains(log.String(), "WARN") {
			t.Errorf("held %d, reloaded %d times; log:\n%s", l.held(), l.reloads, log)
		}
	})
}

func TestALogindThatDoesNotWaitIsComplainedAboutOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLogind(5 * time.Second) // a reload changes nothing
		log, _ := watched(t, newWorld(), l)
		for range 3 {
			time.Sleep(time.Minute)
			if l.held() != 1 { // for as long as it goes
				t.Error("nothing is held up")
			}
			l.breaks(false)
		}
		text := log.String()
		if strings.Count(text, "InhibitDelayMaxSec=30") != 1 || !strings.Contains(text, "no longer than 5s") || !strings.Contains(text, "logind.conf") {
			t.Errorf("log:\n%s", text)
		}
	})
}

func TestADropInThatCanNotBeWrittenIsNamed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLogind(5 * time.Second)
		log := &bytes.Buffer{}
		watcher, err := NewWatcher(WatcherConfig{
			Manager: newWorld().manager(t, usual...), Log: slog.New(slog.NewTextHandler(log, nil)), Connect: l.connect, DropIn: "/dev/null/99-berth.conf",
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := watcher.lengthen(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if text := log.String(); !strings.Contains(text, "/dev/null") || !strings.Contains(text, "InhibitDelayMaxSec=30") {
			t.Errorf("log:\n%s", text)
		}
	})
}
