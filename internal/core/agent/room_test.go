package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// asking has a pod ask for processors.
func asking(p *v1.Pod, cpu string) *v1.Pod {
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	return p
}

// stopping has a pod take so long to stop.
func (n *node) stopping(p *v1.Pod, d time.Duration) *v1.Pod {
	n.hooks.SetDuration(d.String(), d)
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: exec(d.String())}
	return p
}

func (n *node) hasProcessors(count string) {
	n.machine.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(count)}
}

// preempted counts the pods that were ended to make room.
func (n *node) preempted() int {
	n.t.Helper()
	synctest.Wait()
	count := 0
	for _, e := range n.events.All() {
		if strings.HasPrefix(e, pod.ReasonPreempting) {
			count++
		}
	}
	return count
}

// The room that is made for a pod is its own, also while more has to be made: others
// come at once for what becomes free.
func TestRoomThatIsBeingMadeIsGivenToNoOtherPod(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given a full node, and a controller that replaces each pod that fails
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.hasProcessors("2")
		made := 0
		next := func() *v1.Pod {
			made++
			return n.stopping(asking(bound(pod.UID(fmt.Sprint("p", made))), "1"), []time.Duration{20 * time.Second, 5 * time.Second}[made%2])
		}
		there := []*v1.Pod{next(), next()}
		n.binds(there...)

		// when a static pod needs all of it
		n.wants(asking(webPod("static"), "2"))
		for range 30 {
			time.Sleep(time.Second)
			for i, p := range there {
				if n.pod(p.UID).Status.Phase == v1.PodFailed {
					there[i] = next()
				}
			}
			n.binds(there...)
		}

		// then it runs as soon as those two have ended, and no other pod was preempted
		n.expectPhase("static", v1.PodRunning)
		if got := n.preempted(); got != 2 {
			t.Errorf("%d pods were ended to make room, of %d", got, made)
		}
	})
}

func TestAPodThatFitsBesideOneThatWaitsForRoomRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.hasProcessors("4")
		large := n.stopping(asking(bound("large"), "3"), 10*time.Second)
		small, next := asking(bound("small"), "1"), asking(bound("next"), "1")
		n.binds(large)
		n.wants(asking(webPod("static"), "2"))

		// there is room for it now, and there will be
		n.binds(large, small)
		n.expectPhase("small", v1.PodRunning)
		// there will be room for this one, but there is none now
		n.binds(large, small, next)
		n.expectPhase("next", v1.PodFailed)

		time.Sleep(11 * time.Second)
		n.expectPhase("static", v1.PodRunning)
		n.expectPhase("small", v1.PodRunning)
		if got := n.preempted(); got != 1 {
			t.Errorf("%d pods were ended to make room", got)
		}
	})
}

func TestTwoCriticalPodsShareTheRoomThatIsMade(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.hasProcessors("4")
		large, quick := n.stopping(asking(bound("large"), "3"), 20*time.Second), n.stopping(asking(bound("quick"), "1"), 5*time.Second)
		n.binds(large, quick)
		first, second, third := asking(webPod("first"), "2"), asking(webPod("second"), "1"), asking(webPod("third"), "1")

		// what is freed for the first is enough for the second, and then it is not for a third
		n.wants(first)
		n.wants(first, second)
		if got := n.preempted(); got != 1 {
			t.Fatalf("%d pods were ended for two that fit into the room of one", got)
		}
		n.wants(first, second, third)
		if got := n.preempted(); got != 2 {
			t.Fatalf("%d pods were ended for three", got)
		}
		// none of them waits for more than it needs
		time.Sleep(6 * time.Second)
		n.expectPhase("second", v1.PodRunning)
		time.Sleep(15 * time.Second)
		for _, uid := range []pod.UID{"first", "second", "third"} {
			n.expectPhase(uid, v1.PodRunning)
		}
		if got := n.preempted(); got != 2 {
			t.Errorf("%d pods were ended to make room", got)
		}
	})
}

func TestRoomIsFreeWhenItsPodNoLongerWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.hasProcessors("2")
		large, next := n.stopping(asking(bound("large"), "2"), 10*time.Second), asking(bound("next"), "2")
		n.binds(large)
		n.wants(asking(webPod("static"), "2"))
		n.wants() // it goes before there is room
		time.Sleep(11 * time.Second)
		n.expectPhase("large", v1.PodFailed)
		n.binds(large, next)
		n.expectPhase("next", v1.PodRunning)
	})
}

// The room of each pod is added up as pods come, end and go: what is left must always be
// what one more pod can have.
func TestRoomIsFreeAgainHoweverAPodEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.hasProcessors("2")
		job := func(uid pod.UID) *v1.Pod {
			p := asking(bound(uid), "1")
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			return p
		}
		n.binds(job("a"), job("b"))
		n.binds(job("a"), job("b"), job("c"))
		n.expectPhase("c", v1.PodFailed)

		// one ends and stays
		must(t, n.runtime.Exit("a", "app", 0))
		synctest.Wait()
		n.binds(job("a"), job("b"), job("c"), job("d"))
		n.expectPhase("d", v1.PodRunning)
		// one goes
		n.binds(job("a"), job("c"), job("d"))
		n.binds(job("a"), job("c"), job("d"), job("e"))
		n.expectPhase("e", v1.PodRunning)
		n.binds(job("a"), job("c"), job("d"), job("e"), job("f"))
		n.expectPhase("f", v1.PodFailed)
		// one is given less
		n.binds(job("a"), job("c"), job("d"), asking(job("e"), "500m"), job("f"))
		n.binds(job("a"), job("c"), job("d"), asking(job("e"), "500m"), job("f"), asking(job("g"), "500m"))
		n.expectPhase("g", v1.PodRunning)
	})
}
