package image

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestAFailedPullReadsAsAnErrorAndThenAsABackoff(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.down = errors.New("no route")
		w.ask("a", v1.PullIfNotPresent)
		time.Sleep(10 * time.Second)
		w.expectWoken("a")

		got := w.ask("a", v1.PullIfNotPresent)
		w.expect(got, pod.ReasonErrImagePull)
		if got.Message != "why: no route" || time.Until(got.Until) != 2*time.Second {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Until(got.Until))
		got = w.ask("a", v1.PullIfNotPresent)
		w.expect(got, pod.ReasonImagePullBackOff)
		if !strings.Contains(got.Message, app) || !strings.Contains(got.Message, "no route") || time.Until(got.Until) != 8*time.Second {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Until(got.Until))
		w.expect(w.ask("a", v1.PullIfNotPresent), pod.ReasonContainerCreating)
		w.expectPulls(2)
	})
}

func TestTheBackoffDoublesToFiveMinutesAndStartsAnewAfterASuccess(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.down = errors.New("no route")
		next := func() time.Duration {
			w.ask("a", v1.PullAlways)
			time.Sleep(10*time.Second + showError) // it fails, and has been shown
			wait := time.Until(w.ask("a", v1.PullAlways).Until)
			time.Sleep(wait)
			return wait + showError
		}
		for i, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			if got := next(); got != want*time.Second {
				t.Fatalf("wait %d is %s, want %ds", i+1, got, want)
			}
		}
		w.ask("b", v1.PullAlways) // it keeps the entry alive through a's success
		w.set(func(r *registry) { r.down = nil })
		time.Sleep(10 * time.Second)
		w.expectPresent(w.ask("a", v1.PullAlways))

		w.set(func(r *registry) { r.down = errors.New("no route") })
		if got := next(); got != 10*time.Second {
			t.Fatalf("after a success the first wait is %s, want 10s", got)
		}
		if begins, ends := strings.Count(w.log.String(), "can't pull"), strings.Count(w.log.String(), "after all"); begins != 2 || ends != 1 {
			t.Errorf("a failure that lasts is reported %d times, and its end %d times:\n%s", begins, ends, w.log)
		}
	})
}

// Another pod that asks during a backoff waits as well, and does not cut it short.
func TestABackoffIsSharedByAllPodsOfAnImage(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.down = errors.New("no route")
		w.ask("a", v1.PullIfNotPresent)
		time.Sleep(15 * time.Second)
		w.expect(w.ask("b", v1.PullIfNotPresent), pod.ReasonImagePullBackOff)
		w.expectPulls(1)
	})
}

func TestAPullWithoutAWaitingPodIsBrokenOff(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.ask("a", v1.PullIfNotPresent)
		w.ask("b", v1.PullIfNotPresent)
		w.Release("a")
		synctest.Wait()
		if w.broken != 0 {
			t.Fatal("b still waits for it")
		}
		w.Release("b")
		w.Release("b")
		synctest.Wait()
		if w.broken != 1 {
			t.Fatal("nobody waits, and it goes on")
		}
		w.expectForgotten()
		w.expectWoken()

		// Who asks afterwards begins a pull of its own.
		w.expect(w.ask("c", v1.PullIfNotPresent), pod.ReasonContainerCreating)
		w.expectPulls(2)
		time.Sleep(10 * time.Second)
		w.expectWoken("c")
	})
}

func TestAPullThatWaitsForItsTurnCanBeGivenUp(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.ask("a", v1.PullIfNotPresent)
		synctest.Wait()
		w.askFor("b", "c", "localhost/other:1", v1.PullIfNotPresent)
		w.Release("b")
		time.Sleep(time.Minute)
		w.expectPulls(1)
	})
}

func TestAnEditedContainerWaitsOnlyForItsNewImage(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.askFor("a", "c", "localhost/wrong:1", v1.PullIfNotPresent)
		synctest.Wait()
		w.ask("a", v1.PullIfNotPresent)
		synctest.Wait()
		if w.broken != 1 {
			t.Fatal("the image that nobody wants any more is still being pulled")
		}
		time.Sleep(10 * time.Second)
		w.expectPresent(w.ask("a", v1.PullIfNotPresent))
		w.expectForgotten()
	})
}

func TestAnImageThatArrivesByAnotherWayIsFound(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.down = errors.New("no route")
		w.ask("a", v1.PullIfNotPresent)
		time.Sleep(10 * time.Second)
		w.expectWoken("a")
		w.set(func(r *registry) { r.has[app] = true })
		w.Recheck(w.t.Context())
		w.expectWoken("a")
		w.expectPresent(w.ask("a", v1.PullIfNotPresent))
		w.Recheck(w.t.Context())
		w.expectWoken()
	})
}

func TestNamesThatAreNone(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		for _, image := range []string{"", "localhost/UPPER:1", "localhost/app:", "a b", "localhost/app@sha256:12", "http://localhost/app"} {
			got := w.askFor("a", "c", image, v1.PullIfNotPresent)
			w.expect(got, pod.ReasonInvalidImageName)
			if !strings.Contains(got.Message, image) || !got.Until.IsZero() {
				t.Errorf("got %+v", got)
			}
		}
		w.expectPulls(0)
		w.expectForgotten()
	})
}

func TestARuntimeThatCanNotBeAskedIsAskedAgain(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.unreadable = errors.New("disk full")
		got := w.ask("a", v1.PullIfNotPresent)
		w.expect(got, pod.ReasonImageInspectError)
		if got.Message != "why: disk full" || got.Until.IsZero() {
			t.Errorf("got %+v", got)
		}
	}, app)
}

func TestStopEndsAllPulls(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.ask("a", v1.PullIfNotPresent)
		w.askFor("a", "other", "localhost/other:1", v1.PullIfNotPresent)
		synctest.Wait()
		w.Stop()
		w.expectWoken()
		if w.broken != 1 || w.pulled() != 1 {
			t.Errorf("%d of %d were broken off", w.broken, w.pulled())
		}
	})
}

func TestNewWantsAllItNeeds(t *testing.T) {
	full := Config{
		Runtime: &registry{}, Log: slog.New(slog.DiscardHandler), Parallel: 1,
		Enqueue: func(context.Context, pod.UID) {}, Explain: error.Error,
	}
	if _, err := New(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	for name, drop := range map[string]func(*Config){
		"runtime":  func(c *Config) { c.Runtime = nil },
		"log":      func(c *Config) { c.Log = nil },
		"wake":     func(c *Config) { c.Enqueue = nil },
		"explain":  func(c *Config) { c.Explain = nil },
		"parallel": func(c *Config) { c.Parallel = 0 },
	} {
		c := full
		drop(&c)
		if _, err := New(t.Context(), c); err == nil {
			t.Errorf("without %s it was made all the same", name)
		}
	}
}
