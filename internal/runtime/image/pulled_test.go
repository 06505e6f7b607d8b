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
