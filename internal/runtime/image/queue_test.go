package image

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestPullsGoByPriorityThenBySize(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.Size = func(image string) int64 {
			return map[string]int64{"localhost/large:1": 9, "localhost/small:1": 2}[image]
		}
		ask := func(name string, priority int32) {
			p := newPod(pod.UID(name))
			p.Spec.Priority = &priority
			synctest.Wait()
			w.Ensure(w.t.Context(), p, &v1.Container{Name: "c", Image: "localhost/" + name + ":1", ImagePullPolicy: v1.PullIfNotPresent})
		}
		ask("first", 0) // runs at once
		ask("unknown", 0)
		ask("large", 0)
		ask("small", 0)
		ask("raised", 0)
		ask("urgent", 5)
		other := newPod("late")
		other.Spec.Priority = new(int32(9))
		w.Ensure(w.t.Context(), other, &v1.Container{Name: "c", Image: "localhost/raised:1"})
		time.Sleep(2 * time.Minute)
		var want []string
		for _, name := range []string{"first", "raised", "urgent", "small", "large", "unknown"} {
			want = append(want, "localhost/"+name+":1")
		}
		w.registry.mu.Lock()
		defer w.registry.mu.Unlock()
		if !slices.Equal(w.pulls, want) {
			t.Errorf("got %v, want %v", w.pulls, want)
		}
	})
}

func TestPullsBeginAtARate(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		w.rate = rate.NewLimiter(2, 3)
		for i := range 10 {
			w.askFor(pod.UID(fmt.Sprint(i)), "c", fmt.Sprintf("localhost/app:%d", i), v1.PullIfNotPresent)
		}
		w.expectPulls(3)
		time.Sleep(1100 * time.Millisecond)
		w.expectPulls(5)
		time.Sleep(time.Minute)
		w.expectPulls(10)
	})
}

func TestAPullByHandReturnsItsFailure(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		if err := w.Pull(w.t.Context(), "localhost/UPPER"); err == nil {
			t.Error("an impossible name was pulled")
		}
		w.user = "alice"
		if err := w.Pull(w.t.Context(), app); err == nil || err.Error() != "why: denied for " {
			t.Errorf("got %v", err)
		}
		w.Keyring = machine{"alice"}
		w.ask("waits", v1.PullNever)
		if err := w.Pull(w.t.Context(), app); err != nil {
			t.Error(err)
		}
		w.expectWoken("waits")
	})
}
