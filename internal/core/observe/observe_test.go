package observe

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

func TestAStateIsReadOnceAndThenKnown(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.pods["a"] = pod.ContainerRunning
		first := w.fresh("a", time.Time{})
		tick()
		again := w.fresh("a", time.Time{})
		if len(first.Containers) != 1 || !first.At.Equal(again.At) {
			t.Errorf("first %+v, then %+v", first, again)
		}
		w.expectReads(1)
	})
}

func TestAWorkerNeverSeesAStateFromBeforeItsLastAction(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.fresh("a", time.Time{})
		tick()
		acted := time.Now()
		w.pods["a"] = pod.ContainerRunning
		tick()
		if o := w.fresh("a", acted); len(o.Containers) != 1 || !o.At.After(acted) {
			t.Errorf("got %+v", o)
		}
		w.expectReads(2)
		w.fresh("a", acted)
		w.expectReads(0)
	})
}

func TestAnEventMakesTheStateStale(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.run()
		w.fresh("a", time.Time{})
		tick()
		w.happens("a")
		w.expectChanged("a")
		tick()
		w.reads = 0
		w.fresh("a", time.Time{})
		w.fresh("a", time.Time{})
		w.expectReads(1)
		w.happens("unknown")
		w.expectChanged("unknown")
	})
}

func TestAnEventOlderThanTheStateIsDropped(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.run()
		before := time.Now()
		tick()
		w.fresh("a", time.Time{})
		w.stream <- cri.Event{UID: "a", At: before}
		w.expectChanged()
		w.reads = 0
		w.fresh("a", time.Time{})
		w.expectReads(0)
	})
}

// An event of a clock that was set back has a time before that of the state, and may be
// news all the same.
func TestAnEventAfterTheClockWasSetIsNotDropped(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -20 * time.Millisecond, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			withObserver(t, func(w *fixture) {
				// given a pod that was read before the clock was set
				var set atomic.Int64
				steady := w.clock
				w.clock = func() moment {
					now := steady()
					now.wall = now.wall.Add(time.Duration(set.Load()))
					return now
				}
				w.pods["a"] = pod.ContainerRunning
				w.fresh("a", time.Time{})
				w.run()
				w.expectChanged()
				tick()
				set.Store(int64(by))

				// when something happens to it, then it is looked at again
				w.set(func(r *runtime) { r.pods["a"] = pod.ContainerExited })
				w.happens("a")
				w.expectChanged("a")
				tick()
				if o := w.fresh("a", time.Time{}); o.Containers[0].State != pod.ContainerExited {
					t.Fatalf("the event was lost: %+v", o)
				}

				// and from then on, events from before are dropped as ever
				tick()
				w.stream <- cri.Event{UID: "a", At: w.clock().wall.Add(-2 * time.Millisecond)}
				w.expectChanged()
			})
		})
	}
}

// What happens while a pod is read may be missing from what was read. It must
// be read again, also if it was the first time.
func TestAnEventInTheMiddleOfAReadIsNotLost(t *testing.T) {
	for name, known := range map[string]bool{"the first read": false, "a later one": true} {
		t.Run(name, func(t *testing.T) {
			withObserver(t, func(w *fixture) {
				w.run()
				if known {
					w.fresh("a", time.Time{})
					tick()
				}
				since := time.Now()
				tick()
				w.reading = func() {
					tick()
					w.set(func(r *runtime) { r.pods["a"] = pod.ContainerExited })
					w.happens("a")
				}
				if o := w.fresh("a", since); len(o.Containers) != 0 {
					t.Fatalf("the test is wrong: %+v", o)
				}
				w.expectChanged("a")
				w.reading = nil
				tick()
				if o := w.fresh("a", since); len(o.Containers) != 1 {
					t.Fatalf("the event was lost: %+v", o)
				}
			})
		})
	}
}

func TestASlowReadDoesNotOverwriteALaterOne(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.pods["a"] = pod.ContainerRunning
		slow, done := make(chan struct{}), make(chan struct{})
		w.reading = func() { <-slow }
		go func() {
			defer close(done)
			w.fresh("a", time.Time{})
		}()
		synctest.Wait()
		tick()
		w.set(func(r *runtime) { r.reading, r.pods["a"] = nil, pod.ContainerExited })
		w.fresh("a", time.Time{})
		close(slow)
		<-done
		if o := w.fresh("a", time.Time{}); o.Containers[0].State != pod.ContainerExited {
			t.Errorf("got %+v", o)
		}
	})
}

func TestAFailedReadIsTriedAgain(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.failing = errors.New("disk full")
		if _, err := w.Get(w.t.Context(), "a", time.Time{}); !errors.Is(err, w.failing) || !strings.Contains(err.Error(), "pod a") {
			t.Fatalf("got %v", err)
		}
		w.failing = nil
		w.fresh("a", time.Time{})
		w.expectReads(2)
	})
}

func TestNothingIsKeptOfAPodThatIsForgotten(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.fresh("a", time.Time{})
		tick()
		w.reading = func() { w.Forget("a") } // while it is read
		w.fresh("a", time.Now())
		if len(w.known) != 0 {
			t.Errorf("still known: %v", w.known)
		}
	})
}

func TestNewWantsAllItNeeds(t *testing.T) {
	full := Config{
		Runtime: newRuntime(), Log: slog.New(slog.DiscardHandler), RelistInterval: time.Minute, PollInterval: time.Second,
		Enqueue: func(context.Context, pod.UID) {},
	}
	if _, err := New(full); err != nil {
		t.Fatal(err)
	}
	for name, drop := range map[string]func(*Config){
		"runtime": func(c *Config) { c.Runtime = nil },
		"log":     func(c *Config) { c.Log = nil },
		"changed": func(c *Config) { c.Enqueue = nil },
		"relist":  func(c *Config) { c.RelistInterval = 0 },
		"poll":    func(c *Config) { c.PollInterval = -1 },
	} {
		c := full
		drop(&c)
		if _, err := New(c); err == nil {
			t.Errorf("without %s it was made all the same", name)
		}
	}
}
