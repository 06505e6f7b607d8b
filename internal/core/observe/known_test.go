package observe

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/lib/pod"
)

func TestListsAreSeenAndWhatIsKnownCanBeRead(t *testing.T) {
	withObserver(t, func(w *fixture) {
		var lists []time.Time
		w.Relisted = func(at time.Time, _ time.Duration) { lists = append(lists, at) }
		w.pods["a"] = pod.ContainerRunning
		w.fresh("a", time.Time{})
		w.run()
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()

		if len(lists) < 3 {
			t.Errorf("%d lists were seen in two minutes", len(lists))
		}
		if known := w.All(); len(known) != 1 || known[0].UID != "a" {
			t.Errorf("got %+v", known)
		}
	})
}
