package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestAVolumeIsShownAsInUseBeforeItIsMounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		after(time.Minute)
		b.take()
		began := time.Now()
		// Volumes come one after the other, and none waits for its turn.
		for _, volumes := range [][]v1.UniqueVolumeName{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
			b.SetVolumesInUse(volumes, true)
			attached, err := b.Attached(t.Context(), volumes[len(volumes)-1])
			if attached || err != nil || !slices.Equal(b.shown().Status.VolumesInUse, volumes) {
				t.Fatal(attached, err, b.shown().Status.VolumesInUse)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		b.expect("for three volumes", "patch nodes/status", "patch nodes/status", "patch nodes/status")

		// What others attach is seen.
		b.observeNode(b.put(func(n *v1.Node) {
			n.ResourceVersion = "2000"
			n.Status.VolumesAttached = []v1.AttachedVolume{{Name: "b"}}
		}))
		if attached, err := b.Attached(t.Context(), "b"); !attached || err != nil {
			t.Error(attached, err)
		}

		// One that is not used any more goes soon.
		b.SetVolumesInUse([]v1.UniqueVolumeName{"b"}, true)
		after(time.Second)
		if got := b.shown().Status.VolumesInUse; !slices.Equal(got, []v1.UniqueVolumeName{"b"}) {
			t.Error(got)
		}
		b.SetVolumesInUse(nil, true)
		after(time.Second)
		if got := b.shown().Status.VolumesInUse; len(got) > 0 {
			t.Error(got)
		}
	})
}

func TestAVolumeThatIsTakenOffAndPutBackIsShownAgainFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a volume that was in use, and a server that has not heard that it is not.
		b := startReady(t, newCluster(t))
		after(time.Minute)
		b.SetVolumesInUse([]v1.UniqueVolumeName{"a"}, true)
		b.observeNode(b.put(func(n *v1.Node) {
			n.ResourceVersion = "2000"
			n.Status.VolumesInUse = []v1.UniqueVolumeName{"a"}
			n.Status.VolumesAttached = []v1.AttachedVolume{{Name: "a"}}
		}))
		synctest.Wait()
		b.fails(errors.New("away"))
		b.SetVolumesInUse(nil, true)
		after(2 * time.Second)

		// When it is wanted again, then the earlier answer of the server does not count.
		b.SetVolumesInUse([]v1.UniqueVolumeName{"a"}, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if attached, err := b.Attached(ctx, "a"); attached || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(attached, err)
		}
		if _, err := b.Attached(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "report to the API server") {
			t.Error("it waits for ever:", err)
		}
		b.fails(nil)
		if attached, err := b.Attached(t.Context(), "a"); !attached || err != nil {
			t.Error(attached, err)
		}
	})
}

func TestARestartKnowsWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := Build(someFacts(), Settings{Name: "box"}, Health{}, time.Now())
		n.Status.VolumesInUse = []v1.UniqueVolumeName{"gone", "kept"}
		b := startReady(t, newCluster(t, n))
		inUse := func(want ...v1.UniqueVolumeName) {
			t.Helper()
			after(time.Second)
			if got := b.shown().Status.VolumesInUse; !slices.Equal(got, want) {
				t.Errorf("in use: %q, want %q", got, want)
			}
		}
		// Volumes that were not reported stay in the list while the report is not complete.
		inUse("gone", "kept")
		b.SetVolumesInUse([]v1.UniqueVolumeName{"kept", "more"}, false)
		inUse("gone", "kept", "more")
		b.SetVolumesInUse([]v1.UniqueVolumeName{"kept"}, true)
		inUse("kept")
	})
}

func TestANewNodeShowsWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		b.SetVolumesInUse([]v1.UniqueVolumeName{"a"}, true)
		after(time.Second)
		b.removeNode()
		b.markStale()
		synctest.Wait()
		if n := b.shown(); n.UID != "uid-2" || !slices.Equal(n.Status.VolumesInUse, []v1.UniqueVolumeName{"a"}) {
			t.Error(n.UID, n.Status.VolumesInUse)
		}
	})
}
