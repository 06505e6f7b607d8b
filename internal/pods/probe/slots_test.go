package probe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/lib/pod"
)

// crowd returns a pod of n containers with these probes, and its observation.
func crowd(name string, n int, l, r *v1.Probe) (*v1.Pod, pod.Observed) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	var have pod.Observed
	for i := range n {
		c := fmt.Sprint("c", i)
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c, LivenessProbe: l, ReadinessProbe: r})
		have.Containers = append(have.Containers, pod.Container{ID: name + "-" + c, Name: c, State: pod.ContainerRunning, StartedAt: time.Now()})
	}
	return p, have
}

// hang makes all commands of a crowd of n hang.
func (w *world) hang(name string, n int) {
	for i := range n {
		for _, command := range []string{"live", "ready"} {
			w.answer(fmt.Sprintf("%s-c%d", name, i), command, reply{takes: time.Hour})
		}
	}
}

// inWorldOf is inWorld with another number of slots.
func inWorldOf(t *testing.T, slots int, story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.slots = newSlots(slots)
		w.start()
		story(w)
		w.stopRun()
	})
}

// callsOf are the calls of the containers of a pod.
func (w *world) callsOf(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.calls), func(call string) bool { return !strings.Contains(call, " "+name+"-") })
}

func TestOnePodWhoseCommandsHangLeavesRoomForOthers(t *testing.T) {
	inWorldOf(t, 8, func(w *world) {
		// Given a pod all of whose commands hang
		w.hang("bad", 8)
		w.Watch(crowd("bad", 8, asking("live", timeout(300)), asking("ready", timeout(300))))
		w.pass(time.Second)
		// When another comes
		w.Watch(crowd("good", 1, asking("live"), asking("ready")))
		w.pass(0)
		// Then it is asked at once
		if calls := w.callsOf("good"); len(calls) != 2 {
			t.Errorf("calls: %q", calls)
		}
		w.expectHealth("good-c0", "started=- ready=true dead=")
		// And the first has no more than its share
		if calls := w.callsOf("bad"); len(calls) != 3 {
			t.Errorf("calls: %q", calls)
		}
	})
}

func TestCommandsThatHangInManyPodsStopNoProbeForLong(t *testing.T) {
	inWorldOf(t, 8, func(w *world) {
		// Given more pods than there are slots, all of whose commands hang
		for i := range 20 {
			name := fmt.Sprint("bad", i)
			w.hang(name, 2)
			w.Watch(crowd(name, 2, asking("live", timeout(300)), asking("ready", timeout(300))))
		}
		w.pass(time.Minute)
		// When another comes, then it is asked at once: they have gone aside
		w.Watch(crowd("good", 1, asking("live"), asking("ready")))
		w.pass(0)
		if calls := w.callsOf("good"); len(calls) != 2 {
			t.Errorf("calls: %q", calls)
		}
		// And there is an end to how many run, which all of them together reach at most
		for i := range 60 {
			name := fmt.Sprint("worse", i)
			w.hang(name, 2)
			w.Watch(crowd(name, 2, asking("live", timeout(300)), asking("ready", timeout(300))))
		}
		w.pass(time.Minute)
		if w.most > 8+8*maxLatePerSlot {
			t.Errorf("%d commands at a time", w.most)
		}
	})
}

func TestAHungReadinessProbeDoesNotHoldUpLiveness(t *testing.T) {
	inWorldOf(t, 8, func(w *world) {
		p, have := crowd("a", 8, asking("live", delay(5)), asking("ready", timeout(300)))
		for i := range 8 {
			w.answer(fmt.Sprintf("a-c%d", i), "ready", reply{takes: time.Hour})
		}
		w.Watch(p, have)
		w.pass(5 * time.Second)
		calls := slices.DeleteFunc(w.callsOf("a"), func(call string) bool { return !strings.HasSuffix(call, " live") })
		if len(calls) != 8 {
			t.Errorf("asked whether they live: %q", calls)
		}
	})
}

func TestAPodThatIsForgottenWhileItWaitsForASlotLeavesTheLine(t *testing.T) {
	inWorldOf(t, 1, func(w *world) {
		w.answer("c1", "ready", reply{takes: time.Second})
		w.watch(web("a", nil, nil, asking("ready", timeout(2))), "c1")
		w.pass(0)
		w.watch(web("b", nil, nil, asking("ready")), "c2")
		w.watch(web("c", nil, nil, asking("ready")), "c3")
		w.pass(0)
		w.Forget("uid-b")
		w.pass(2 * time.Second)
		w.expectCalls("0s c1 ready", "1s c3 ready")
		w.slots.mu.Lock()
		defer w.slots.mu.Unlock()
		if n := len(w.slots.waiting) + len(w.slots.running); n != 0 {
			t.Errorf("%d commands are left", n)
		}
	})
}

func TestWhichProbeIsNext(t *testing.T) {
	c := func(uid pod.UID, asks kind, late bool) *command { return &command{uid: uid, kind: asks, late: late} }
	for name, tc := range map[string]struct {
		running, waiting []*command
		want             int // -1: none
	}{
		"nobody waits":        {nil, nil, -1},
		"the first":           {nil, []*command{c("a", readiness, false), c("b", readiness, false)}, 0},
		"who has fewer":       {[]*command{c("a", readiness, false)}, []*command{c("a", readiness, false), c("b", readiness, false)}, 1},
		"who has none better": {[]*command{c("a", readiness, false)}, []*command{c("a", readiness, false)}, 0},
		"who had its share": {
			[]*command{c("a", readiness, false), c("a", readiness, false)},
			[]*command{c("a", readiness, false)},
			-1,
		},
		"its life is more": {
			[]*command{c("a", readiness, false), c("a", readiness, false)},
			[]*command{c("a", readiness, false), c("a", liveness, false)},
			1,
		},
		"but not everything": {
			[]*command{c("a", readiness, false), c("a", readiness, true), c("a", liveness, false)},
			[]*command{c("a", liveness, false)},
			-1,
		},
		"some are kept for the life of others": {
			[]*command{
				c("a", readiness, false), c("a", readiness, false), c("b", readiness, false),
				c("b", readiness, false), c("c", readiness, false), c("c", readiness, false),
			},
			[]*command{c("d", readiness, false), c("e", liveness, false)},
			1,
		},
		"what is late takes no room": {
			[]*command{
				c("a", readiness, true), c("a", readiness, true), c("b", readiness, true),
				c("b", readiness, true), c("c", readiness, true), c("c", readiness, true),
			},
			[]*command{c("d", readiness, false)},
			0,
		},
	} {
		if got := next8(tc.running, tc.waiting); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func next8(running, waiting []*command) int { return limitsOf(8).next(running, waiting) }
