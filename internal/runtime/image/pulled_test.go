package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestWhetherAnImageIsThereIsCounted(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		var seen []string
		text := func(b *bool) string {
			if b == nil {
				return "unknown"
			}
			return fmt.Sprint(*b)
		}
		w.Ensured = func(policy v1.PullPolicy, present, pull *bool) {
			seen = append(seen, fmt.Sprint(policy, " ", text(present), " ", text(pull)))
		}
		w.ask("1", v1.PullIfNotPresent)
		time.Sleep(time.Minute)
		w.ask("1", v1.PullIfNotPresent)
		w.ask("1", v1.PullAlways)
		w.set(func(r *registry) { r.unreadable = errors.New("no answer") })
		w.ask("1", v1.PullIfNotPresent)

		if want := []string{"IfNotPresent false true", "IfNotPresent true false", "Always true true", "IfNotPresent unknown unknown"}; !slices.Equal(seen, want) {
			t.Errorf("got %q, want %q", seen, want)
		}
	})
}

func TestPullsAreSeen(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		var seen []string
		w.Pulled = func(_ context.Context, image string, _ time.Duration, err error) {
			seen = append(seen, fmt.Sprint(image, " ", err))
		}
		w.set(func(r *registry) { r.down = errors.New("down") })
		w.ask("1", v1.PullIfNotPresent)
		time.Sleep(time.Minute)
		synctest.Wait()

		if want := []string{app + " down"}; !slices.Equal(seen, want) {
			t.Errorf("got %q, want %q", seen, want)
		}
	})
}
