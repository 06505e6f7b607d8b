package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/lib/pod"
)

func TestAPodIsDueOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newDueQueue()
		go q.run(t.Context())
		began := time.Now()
		// given a pod that is asked for three times, and one in between
		q.add("a", began.Add(30*time.Second))
		q.add("a", began.Add(10*time.Second))
		q.add("a", began.Add(20*time.Second))
		q.add("b", began.Add(15*time.Second))

		// then each comes once, when it was first wanted
		for _, want := range []struct {
			uid   pod.UID
			after time.Duration
		}{{"a", 10 * time.Second}, {"b", 15 * time.Second}} {
			if uid := <-q.out; uid != want.uid || time.Since(began) != want.after {
				t.Errorf("%s came after %s, want %s after %s", uid, time.Since(began), want.uid, want.after)
			}
		}
		select {
		case uid := <-q.out:
			t.Errorf("%s came again", uid)
		case <-time.After(time.Hour):
		}
	})
}

// A time that the runtime reports, or that was read from disk, is of the wall clock. If that is set
// back by a day, a pod must not wait for a day.
func TestAClockThatIsSetDelaysNoPod(t *testing.T) {
	q := newDueQueue()
	onTheWall := time.Now().Add(time.Minute).Round(0)
	q.add("a", onTheWall)
	if got := q.at["a"]; !got.Equal(onTheWall) || !strings.Contains(got.String(), " m=+") {
		t.Errorf("it is due at %s, and wanted at %s", got, onTheWall)
	}
}
