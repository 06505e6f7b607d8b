package agent_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// greedy is a pod that runs once, and leaves no room for another of its kind.
func greedy(uid pod.UID) *v1.Pod {
	p := bound(uid)
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: v1.ProtocolTCP}}
	return p
}

func hasRoomForOne(n *node) {
	n.machine.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourcePods: resource.MustParse("1")}
}

// A scheduler reads the end of one pod as room for the next.
func TestAPodThatHasEndedMakesRoomAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		hasRoomForOne(n)
		n.runtime.Delay("StopSandbox", 10*time.Second)
		first, second := greedy("first"), greedy("second")
		n.binds(first)
		must(t, n.runtime.Exit("first", "app", 0))
		n.expectPhase("first", v1.PodSucceeded)

		n.binds(first, second)
		n.expectPhase("second", v1.PodRunning)
		if n.runtime.Calls("RemoveSandbox") != 0 {
			t.Error("the first one was cleaned up: this shows nothing")
		}
	})
}

func TestAPodThatEndedBeforeTheAgentCameTakesNoRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		hasRoomForOne(n)
		n.runtime.Delay("Pod", 10*time.Second) // its worker does not get round before that
		done, fresh := greedy("done"), greedy("fresh")
		done.Status.Phase = v1.PodSucceeded
		n.binds(done, fresh)
		time.Sleep(time.Minute)
		n.expectPhase("fresh", v1.PodRunning)
	})
}

// Another client may say that a pod has ended. It is stopped then, and has its room until
// that is done.
func TestAPodThatRunsTakesRoomWhateverOthersSay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		hasRoomForOne(n)
		n.runtime.Delay("Pod", 10*time.Second)
		lost, fresh := greedy("lost"), greedy("fresh")
		lost.Status.Phase = v1.PodFailed
		lost.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
		n.binds(lost, fresh)
		n.expectPhase("fresh", v1.PodFailed)
	})
}

// That a pod will fail is known before it has stopped. Until then it has its room.
func TestAPodThatIsBeingEndedKeepsItsRoomWhileItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		hasRoomForOne(n)
		n.runtime.Delay("StopContainer", 10*time.Second)
		late, second, third := greedy("late"), greedy("second"), greedy("third")
		late.Spec.ActiveDeadlineSeconds = new(int64(5))
		n.binds(late)
		time.Sleep(6 * time.Second)
		n.expectPhase("late", v1.PodRunning)
		if reason := n.pod("late").Status.Reason; reason != pod.ReasonDeadlineExceeded {
			t.Errorf("it is being ended for %q", reason)
		}
		n.binds(late, second)
		n.expectPhase("second", v1.PodFailed)

		time.Sleep(15 * time.Second)
		n.expectPhase("late", v1.PodFailed)
		n.binds(late, second, third)
		n.expectPhase("third", v1.PodRunning)
	})
}

// No pod gains by the end of one that has ended.
func TestAPodThatHasEndedIsNotPreempted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		hasRoomForOne(n)
		n.runtime.Delay("StopSandbox", 10*time.Second)
		done, critical := greedy("done"), greedy("critical")
		critical.Spec.Priority = new(int32(2_000_001_000))
		n.binds(done)
		must(t, n.runtime.Exit("done", "app", 0))
		n.expectPhase("done", v1.PodSucceeded)
		n.binds(done, critical)
		n.expectPhase("critical", v1.PodRunning)
		n.expectPhase("done", v1.PodSucceeded)
		for _, e := range n.events.All() {
			if strings.HasPrefix(e, pod.ReasonPreempting) {
				t.Error(e)
			}
		}
	})
}
