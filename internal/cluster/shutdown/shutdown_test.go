package shutdown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// world is a node whose pods take as long to stop as a test says, and never longer
// than their grace.
type world struct {
	mu     sync.Mutex
	pods   map[pod.UID]*v1.Pod
	needs  map[pod.UID]time.Duration
	ended  map[pod.UID]chan struct{}
	asked  map[pod.UID]bool
	causes map[string]bool
	log    []string
	began  time.Time
	gate   string
	shown  error
}

func newWorld(pods ...*v1.Pod) *world {
	w := &world{
		pods: map[pod.UID]*v1.Pod{}, needs: map[pod.UID]time.Duration{}, ended: map[pod.UID]chan struct{}{}, asked: map[pod.UID]bool{},
		causes: map[string]bool{}, began: time.Now(), gate: "open",
	}
	for _, p := range pods {
		w.pods[p.UID], w.ended[p.UID] = p, make(chan struct{})
	}
	return w
}

func (w *world) needing(name string, d time.Duration) *world {
	w.needs[pod.UID("uid-"+name)] = d
	return w
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%s ", time.Since(w.began))+fmt.Sprintf(format, args...))
}

func (w *world) Active() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*v1.Pod
	for uid, p := range w.pods {
		select {
		case <-w.ended[uid]:
		default:
			out = append(out, p)
		}
	}
	return out
}

// stuck is the duration of a pod that never ends, not even by force.
const stuck = time.Duration(-1)

func (w *world) End(uid pod.UID, grace *int64, cause pod.Cause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("stop %s in %d", w.pods[uid].Name, *grace)
	w.causes[cause.Message] = true
	if w.asked[uid] || w.needs[uid] == stuck {
		return
	}
	w.asked[uid] = true
	time.AfterFunc(min(w.needs[uid], time.Duration(*grace)*time.Second), func() { close(w.ended[uid]) })
}

func (w *world) Ended(uid pod.UID) <-chan struct{} { return w.ended[uid] }

func (w *world) Hold(ctx context.Context, cause pod.Cause) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = "closed: " + cause.Description
	return ctx.Err()
}

func (w *world) Resume(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = "open"
	return ctx.Err()
}

func (w *world) state() (gate string, shown error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate, w.shown
}

func (w *world) manager(t *testing.T, periods ...Period) *Manager {
	t.Helper()
	m, err := New(Config{
		Pods: w, Gate: w, Log: slog.New(slog.DiscardHandler), Periods: periods,
		Show: func(why error) { w.mu.Lock(); defer w.mu.Unlock(); w.shown = why },
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (w *world) expect(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.log, want) {
		t.Fatalf("\ngot  %q\nwant %q", w.log, want)
	}
}

func inBubble(t *testing.T, test func(t *testing.T)) { t.Helper(); synctest.Test(t, test) }

var usual = []Period{{0, 20 * time.Second}, {2e9, 10 * time.Second}}

func quiet(Progress) {}

func TestAShutdownStopsTheLowestPrioritiesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("dns", 2e9), newPod("web", 0), static(newPod("app", 5))).
			needing("web", 3*time.Second).needing("app", time.Second).needing("dns", time.Second)
		m := w.manager(t, usual...)
		late, err := m.Shutdown(t.Context())
		if err != nil || len(late) != 0 {
			t.Fatalf("got %v, %v", late, err)
		}
		// the second group does not wait for the period of the first
		w.expect(t, "0s stop app in 20", "0s stop web in 20", "3s stop dns in 10")
		if took := time.Since(w.began); took != 4*time.Second {
			t.Errorf("it took %s", took)
		}
		if gate, shown := w.state(); gate != "closed: the machine goes down" || shown == nil {
			t.Errorf("the gate is %s, and shown is %v", gate, shown)
		}
		if !w.causes["Pod was terminated in response to imminent node shutdown."] || len(w.causes) != 1 {
			t.Errorf("the causes are %v", w.causes)
		}
	})
}

func TestAGroupThatIsLateDoesNotHoldUpTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("dns", 2e9), newPod("hung", 0), newPod("slow", 0)).
			needing("hung", stuck).needing("slow", 25*time.Second).needing("dns", 2*time.Second)
		m := w.manager(t, []Period{{0, 5 * time.Second}, {2e9, 10 * time.Second}}...)
		late, err := m.Shutdown(t.Context())
		if err != nil || !slices.Equal(late, []string{"default/hung"}) {
			t.Fatalf("got %v, %v", late, err)
		}
		w.expect(t, "0s stop hung in 5", "0s stop slow in 5", "5s stop dns in 10")
	})
}

func TestAPeriodOfZeroWaitsForNoPod(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0), newPod("dns", 2e9)).needing("dns", time.Second)
		late, err := w.manager(t, []Period{{0, 0}, {2e9, 10 * time.Second}}...).Shutdown(t.Context())
		if err != nil || len(late) != 0 {
			t.Fatalf("got %v, %v", late, err)
		}
		w.expect(t, "0s stop web in 0", "0s stop dns in 10")
	})
}

func TestADrainReportsItsProgress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("dns", 2e9), newPod("web", 0)).needing("web", 1200*time.Millisecond).needing("dns", time.Minute)
		var reports []string
		late, err := w.manager(t).Drain(t.Context(), Order{}, func(p Progress) {
			reports = append(reports, fmt.Sprint(p.Step, p.Pods, " ", p.Pod, " ", p.Time))
		})
		if err != nil || len(late) != 0 {
			t.Fatalf("got %v, %v", late, err)
		}
		want := []string{
			fmt.Sprint(Began, 2, "  0s"),
			fmt.Sprint(Stopping, 0, " default/web 30s"), fmt.Sprint(Stopped, 0, " default/web 1.2s"),
			fmt.Sprint(Stopping, 0, " default/dns 30s"), fmt.Sprint(Stopped, 0, " default/dns 30s"),
		}
		if !slices.Equal(reports, want) {
			t.Errorf("\ngot  %q\nwant %q", reports, want)
		}
		if !w.causes[messageDrain] {
			t.Errorf("the causes are %v", w.causes)
		}
	})
}

func TestADrainWithLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given a pod that hangs, one that must not stop before it is done, and a static one
		w := newWorld(newPod("dns", 2e9), newPod("hung", 0), static(newPod("box", 0))).needing("hung", stuck)
		m := w.manager(t)
		var lates []string
		order := Order{Grace: new(int64(4)), Timeout: 8 * time.Second, KeepStatic: true}
		late, err := m.Drain(t.Context(), order, func(p Progress) {
			if p.Step == Late {
				lates = append(lates, p.Pod)
			}
		})
		// then the wait ends, and both are named: the one that hangs, and the one whose turn never came
		if err != nil || !slices.Equal(late, []string{"default/dns", "default/hung"}) || !slices.Equal(lates, []string{"default/hung"}) {
			t.Fatalf("got %v, %v; late %v", late, err, lates)
		}
		w.expect(t, "0s stop hung in 4")
		if took := time.Since(w.began); took != 8*time.Second {
			t.Errorf("it took %s", took)
		}

		// when it is drained again, then the pods that are left are asked to stop again
		if late, err = m.Drain(t.Context(), Order{Grace: new(int64(0)), Timeout: time.Second}, quiet); err != nil || len(late) != 2 {
			t.Fatalf("got %v, %v", late, err)
		}
		w.expect(t, "0s stop hung in 4", "8s stop box in 0", "8s stop hung in 0")
	})
}

func TestADrainOfNothingIsDoneAtOnceAndCanBeUndone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		m := w.manager(t, usual...)
		for range 2 {
			if late, err := m.Drain(t.Context(), Order{}, quiet); err != nil || len(late) != 0 {
				t.Fatalf("got %v, %v", late, err)
			}
			if gate, shown := w.state(); gate != "closed: the node is drained" || !errors.Is(shown, errDrained) || !errors.Is(m.Closed(), errDrained) {
				t.Errorf("the gate is %s, and shown is %v", gate, shown)
			}
		}
		for range 2 { // the second time there is nothing to undo
			if err := m.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			if gate, shown := w.state(); gate != "open" || shown != nil || m.Closed() != nil {
				t.Errorf("the gate is %s, and shown is %v", gate, shown)
			}
		}
	})
}

// outcome is how a call ended that goes on beside the test.
type outcome struct {
	late []string
	err  error
}

func beside(f func() ([]string, error)) chan outcome {
	done := make(chan outcome, 1)
	go func() {
		late, err := f()
		done <- outcome{late, err}
	}()
	synctest.Wait()
	return done
}

func TestOneDrainAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0), newPod("dns", 2e9)).needing("web", 10*time.Second)
		m := w.manager(t)
		first := beside(func() ([]string, error) { return m.Drain(t.Context(), Order{}, quiet) })
		if _, err := m.Drain(t.Context(), Order{}, quiet); !errors.Is(err, ErrBusy) {
			t.Fatalf("got %v", err)
		}
		// when it is undone, then no more pods are stopped, and the gate is open
		if err := m.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-first; !errors.Is(got.err, errUndone) {
			t.Fatalf("got %+v", got)
		}
		w.expect(t, "0s stop web in 30")
		if gate, _ := w.state(); gate != "open" {
			t.Errorf("the gate is %s", gate)
		}
	})
}

func TestADrainGoesOnWithoutItsClient(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0), newPod("dns", 2e9)).needing("web", 10*time.Second)
		m := w.manager(t)
		ctx, leave := context.WithCancel(t.Context())
		first := beside(func() ([]string, error) { return m.Drain(ctx, Order{}, quiet) })
		leave()
		if got := <-first; !errors.Is(got.err, context.Canceled) {
			t.Fatalf("got %+v", got)
		}
		if gate, _ := w.state(); gate == "open" {
			t.Error("the node takes pods while some were stopped")
		}
		if late, err := m.Drain(t.Context(), Order{}, quiet); err != nil || len(late) != 0 {
			t.Fatalf("and it can be gone on with: %v, %v", late, err)
		}
	})
}

func TestADrainGivesWayToAShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(newPod("web", 0)).needing("web", time.Minute)
		m := w.manager(t, usual...)
		drain := beside(func() ([]string, error) { return m.Drain(t.Context(), Order{}, quiet) })
		time.Sleep(time.Second)
		down := beside(func() ([]string, error) { return m.Shutdown(t.Context()) })
		if got := <-drain; !errors.Is(got.err, ErrGoingDown) {
			t.Fatalf("got %+v", got)
		}
		if _, err := m.Drain(t.Context(), Order{}, quiet); !errors.Is(err, ErrGoingDown) {
			t.Fatalf("got %v", err)
		}
		if err := m.Undo(t.Context()); !errors.Is(err, ErrGoingDown) {
			t.Fatalf("got %v", err)
		}
		<-down
		w.expect(t, "0s stop web in 30", "1s stop web in 20")

		// when the shutdown is cancelled, then the node is as drained as before
		if err := m.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if gate, shown := w.state(); gate != "closed: the node is drained" || !errors.Is(shown, errDrained) {
			t.Errorf("the gate is %s, and shown is %v", gate, shown)
		}
		if err := m.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
		if gate, _ := w.state(); gate != "open" {
			t.Errorf("the gate is %s", gate)
		}
	})
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a manager of nothing")
	}
	m := newWorld().manager(t)
	if _, err := m.Shutdown(t.Context()); !errors.Is(err, errNoPeriods) {
		t.Errorf("got %v", err)
	}
	connect := func(context.Context) (Logind, error) { return nil, errors.New("none") }
	if _, err := NewWatcher(WatcherConfig{Manager: m, Log: slog.New(slog.DiscardHandler), Connect: connect}); !errors.Is(err, errNoPeriods) {
		t.Errorf("got %v", err)
	}
	if _, err := NewWatcher(WatcherConfig{}); err == nil {
		t.Error("a watcher of nothing")
	}
}
