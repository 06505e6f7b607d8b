package status

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func wasSignalled(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTheStoreReportsChanges(t *testing.T) {
	s := NewStore()
	if _, ok := s.Get("a"); ok {
		t.Fatal("an empty store has a status")
	}
	if !s.Set("a", v1.PodStatus{Phase: v1.PodPending, StartTime: ptr(noon)}) {
		t.Error("the first status is new")
	}
	if s.Set("a", v1.PodStatus{Phase: v1.PodPending, StartTime: ptr(noon.Local())}) {
		t.Error("the same time in another zone is the same status")
	}
	if !s.Set("a", v1.PodStatus{Phase: v1.PodRunning, StartTime: ptr(noon)}) {
		t.Error("another phase is new")
	}
	if got, ok := s.Get("a"); !ok || got.Phase != v1.PodRunning {
		t.Errorf("got %+v, %t", got, ok)
	}
	s.Forget("a")
	if _, ok := s.Get("a"); ok {
		t.Error("a forgotten status is still there")
	}
}

func TestAWatcherIsNotifiedOnceAndOnlyOfItsPod(t *testing.T) {
	s := NewStore()
	changed, stop := s.Watch("a")
	other, stopOther := s.Watch("a")
	defer stopOther()
	if wasSignalled(changed) {
		t.Fatal("nothing has changed yet")
	}
	s.Set("a", v1.PodStatus{Phase: v1.PodPending})
	s.Set("a", v1.PodStatus{Phase: v1.PodRunning})
	if !wasSignalled(changed) || wasSignalled(changed) {
		t.Error("want to be reported exactly once")
	}
	if s.Set("b", v1.PodStatus{Phase: v1.PodRunning}); wasSignalled(changed) {
		t.Error("reported another pod")
	}
	if s.Set("a", v1.PodStatus{Phase: v1.PodRunning}); wasSignalled(changed) {
		t.Error("reported a status that is as it was")
	}
	if s.Forget("a"); !wasSignalled(changed) {
		t.Error("not reported that a pod is gone")
	}

	stop()
	stop() // once more does no harm
	if s.Set("a", v1.PodStatus{}); wasSignalled(changed) {
		t.Error("reported after the watch ended")
	}
	if !wasSignalled(other) {
		t.Error("the end of one watch ended another")
	}
	stopOther()
	if len(s.watchers) != 0 {
		t.Errorf("watches are left: %v", s.watchers)
	}
}

func TestASubscriberGetsEachChangeAndMayRead(t *testing.T) {
	s := NewStore()
	var notified []string
	s.Subscribe(func(uid pod.UID) {
		now, ok := s.Get(uid)
		notified = append(notified, fmt.Sprint(uid, " ", now.Phase, " ", ok))
	})
	s.Set("a", v1.PodStatus{Phase: v1.PodPending})
	s.Set("a", v1.PodStatus{Phase: v1.PodPending})
	s.Set("b", v1.PodStatus{Phase: v1.PodRunning})
	s.Forget("a")
	s.Forget("a")
	if want := []string{"a Pending true", "b Running true", "a  false"}; !slices.Equal(notified, want) {
		t.Errorf("reported %q, want %q", notified, want)
	}
}

// A subscriber never gets a status after a newer one.
func TestNoStatusIsSetWhileSubscribersAreNotified(t *testing.T) {
	s := NewStore()
	s.WithLock("a", func(v1.PodStatus) { t.Error("there is none") })
	s.Set("a", speak("1"))
	notified := ""
	s.WithLock("a", func(now v1.PodStatus) {
		notified = now.Message
		if s.mu.TryLock() {
			t.Error("somebody else may set it")
			s.mu.Unlock()
		}
	})
	if notified != "1" {
		t.Errorf("reported %q", notified)
	}
}
