package image

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/progress"
	"berth/internal/runtime/keyring"
)

func TestAPullReportsItsProgress(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		// given an image of 100 bytes that comes within five seconds, and is unpacked for another five
		var came int64
		w.PullProgress = func(_ context.Context, repository string) (done, total int64) {
			if repository != "localhost/app" {
				t.Errorf("asked for %s", repository)
			}
			came += 20
			if came > 100 {
				return 0, 0
			}
			return came, 100
		}

		// when it is pulled
		w.ask("a", v1.PullIfNotPresent)
		expect := func(want progress.Progress) {
			t.Helper()
			w.expectPulls(1)
			if got := w.Progress(app); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}

		// then it is known how much is here, how fast it comes, and how long it takes
		expect(progress.Progress{})
		time.Sleep(time.Second)
		expect(progress.Progress{Done: 20, Total: 100})
		time.Sleep(2 * time.Second)
		expect(progress.Progress{Done: 60, Total: 100, Rate: 20, Remaining: 2 * time.Second})
		time.Sleep(3 * time.Second)
		expect(progress.Progress{})

		// when it is over, then the progress is not polled any more
		time.Sleep(5 * time.Second)
		w.expectPresent(w.ask("a", v1.PullIfNotPresent))
		looked := came
		time.Sleep(time.Minute)
		if came != looked || len(w.arrivals) != 0 {
			t.Errorf("somebody looks at %v", w.arrivals)
		}
	})
}

func TestSilence(t *testing.T) {
	now := time.Unix(1000, 0)
	later := now.Add(20 * time.Second)
	a := arrival{meter: progress.NewMeter(now)}
	a.update(0, 0, now)
	if got := a.meter.Progress(later); got.Silent != 20*time.Second {
		t.Errorf("a registry that says nothing at all: %+v", got)
	}
	a.update(5, 10, later)
	if got := a.meter.Progress(later.Add(20 * time.Second)); got.Silent != 20*time.Second || got.Done != 5 {
		t.Errorf("a registry that stops: %+v", got)
	}
}

// silentRuntime gives up each pull after some time, as containerd does.
type silentRuntime struct{ *registry }

var errSilent = errors.New("canceled")

func (r silentRuntime) PullImage(ctx context.Context, image string, show keyring.Credential) (string, error) {
	if _, err := r.registry.PullImage(ctx, image, show); err != nil {
		return "", err
	}
	r.set(func(r *registry) { delete(r.has, image) })
	return "", errSilent
}

func TestARegistryThatFallsSilent(t *testing.T) {
	for _, c := range []struct {
		timeout time.Duration
		want    string
	}{
		{time.Minute, "nothing came from the registry for 1m0s"},
		{0, "nothing came from the registry for too long"},
	} {
		inWorld(t, 1, func(w *world) {
			// given a runtime that gives up, and three logins
			w.Runtime, w.PullTimeout = silentRuntime{w.registry}, c.timeout
			w.GaveUp = func(err error) bool { return errors.Is(err, errSilent) }
			w.Keyring = machine{"alice", "bob", "carol"}

			// when an image is pulled
			w.ask("a", v1.PullIfNotPresent)
			time.Sleep(10 * time.Second)

			// then the pod says why, and the others are not tried: they would wait as long
			got := w.ask("a", v1.PullIfNotPresent)
			w.expect(got, pod.ReasonErrImagePull)
			if !strings.Contains(got.Message, c.want) {
				t.Errorf("got %q", got.Message)
			}
			w.expectPulls(1)

			// and it is tried again
			time.Sleep(15 * time.Second)
			w.ask("a", v1.PullIfNotPresent)
			w.expectPulls(2)
		})
	}
}
