package observe

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/lib/pod"
)

func TestTheAuditFindsChangesWithoutAnEvent(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.pods["same"], w.pods["ends"], w.pods["goes"] = pod.ContainerRunning, pod.ContainerRunning, pod.ContainerRunning
		w.run()
		w.expectChanged("ends", "goes", "same", "ends", "goes", "same") // they were not read yet
		for _, uid := range []pod.UID{"same", "ends", "goes"} {
			w.fresh(uid, time.Time{})
		}
		w.expectReads(3)

		w.set(func(r *runtime) {
			r.pods["ends"], r.pods["comes"] = pod.ContainerExited, pod.ContainerRunning
			delete(r.pods, "goes")
		})
		time.Sleep(time.Minute)
		w.expectChanged("comes", "ends", "goes")
		tick()
		for _, uid := range []pod.UID{"same", "ends", "goes", "comes"} {
			w.fresh(uid, time.Time{})
		}
		w.expectReads(3) // all but the one that did not change

		time.Sleep(time.Hour)
		w.expectChanged()
	})
}

func TestWhileEventsArriveTheRuntimeIsRarelyListed(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.run()
		if n := w.counted(); n != 2 {
			t.Errorf("listed %d times at the start, want once, and once more with the events", n)
		}
		time.Sleep(10*time.Minute + time.Second)
		if n := w.counted(); n != 10 {
			t.Errorf("listed %d times in ten minutes, want 10", n)
		}
	})
}

func TestARuntimeWithoutEventsIsListedEverySecond(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.noEvents = true
		w.run()
		w.counted()
		time.Sleep(time.Minute + time.Millisecond)
		if n := w.counted(); n != 60 {
			t.Errorf("listed %d times in a minute, want 60", n)
		}
		if n := w.logged("no container events"); n != 1 || w.opened != 1 {
			t.Errorf("logged %d times, asked for events %d times:\n%s", n, w.opened, w.log)
		}
	})
}

func TestABrokenStreamIsOpenedAgainAndFollowedByAnAudit(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.pods["a"] = pod.ContainerRunning
		w.run()
		w.fresh("a", time.Time{})
		w.expectChanged("a", "a")
		tick()
		w.cut <- struct{}{}
		synctest.Wait()
		w.set(func(r *runtime) { r.pods["a"] = pod.ContainerExited }) // without an event
		w.expectChanged()
		time.Sleep(reopenInterval)
		w.expectChanged("a")
		w.fresh("a", time.Now())
		tick()
		w.happens("a") // and there are events again
		w.expectChanged("a")
	})
}

func TestARuntimeThatIsDownIsTriedEachSecondAndLoggedOnce(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.run()
		w.set(func(r *runtime) { r.failing = errors.New("connection refused") })
		w.cut <- struct{}{}
		synctest.Wait()
		w.counted()
		time.Sleep(10*time.Second + time.Millisecond)
		if n := w.counted(); n != 10 {
			t.Errorf("listed %d times in ten seconds, want 10", n)
		}
		w.set(func(r *runtime) { r.failing = nil })
		time.Sleep(2 * time.Second)
		if begins, ends := w.logged("can't list"), w.logged("listed again"); begins != 1 || ends != 1 {
			t.Errorf("the failure is logged %d times, its end %d times:\n%s", begins, ends, w.log)
		}
		w.counted()
		time.Sleep(10 * time.Minute)
		if n := w.counted(); n != 10 {
			t.Errorf("listed %d times in ten minutes after that, want 10", n)
		}
	})
}

func TestAListThatFailsWhileEventsArriveIsTriedSoon(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.run()
		w.set(func(r *runtime) { r.failing = errors.New("too slow") })
		time.Sleep(time.Minute)
		w.set(func(r *runtime) { r.failing = nil })
		w.counted()
		time.Sleep(2 * time.Second)
		if n := w.counted(); n != 1 {
			t.Errorf("listed %d times, want 1", n)
		}
	})
}

func TestAnAuditOnDemand(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.run()
		w.counted()
		w.Relist()
		synctest.Wait()
		w.Relist()
		w.Relist()
		synctest.Wait()
		if n := w.counted(); n < 2 || n > 3 {
			t.Errorf("listed %d times", n)
		}
	})
}

func TestARequestForAPodThatIsGoneLeavesNothing(t *testing.T) {
	withObserver(t, func(w *fixture) {
		w.run()
		w.fresh("gone", time.Time{})
		if len(w.All()) != 1 {
			t.Fatalf("%v is known", w.All())
		}
		time.Sleep(time.Minute + time.Second)
		if known := w.All(); len(known) != 0 {
			t.Errorf("%v is still known", known)
		}
		w.expectChanged()
	})
}
