package execute

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/image"
)

func TestAContainerThatAProbeGaveUpIsStoppedWithinItsGraceAndComesAgain(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app", "log")
		n.settle(p)
		n.probes.SetHealth(n.have(p).Container("app").ID, pod.Health{Dead: "liveness probe failed: 500", Grace: new(int64(3))})
		n.settle(p)
		if stops := n.runtime.Stops(); len(stops) != 1 || stops[0].Grace.Round(time.Second) != 3*time.Second {
			t.Errorf("stopped: %+v", stops)
		}
		n.expectState(p, "app", "running")
		if restarts := n.have(p).Container("app").RestartCount; restarts != 1 {
			t.Errorf("%d restarts", restarts)
		}
		if want := "Killing Container app failed liveness probe, will be restarted"; !slices.Contains(n.events.All(), want) {
			t.Errorf("events: %q", n.events.All())
		}
	})
}

// It ends with exit code 0 when it is stopped, and the pod is restarted on failures only.
func TestAContainerThatAProbeGaveUpRunsAgainWhateverItsExitCodeIs(t *testing.T) {
	for name, between := range map[string]func(n *node){
		"the same agent": func(*node) {},
		"the next agent": (*node).restartAgent,
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, 1, func(n *node) {
				p := web("a", "app")
				p.Spec.RestartPolicy = v1.RestartPolicyOnFailure
				n.settle(p)
				n.probes.SetHealth(n.have(p).Container("app").ID, pod.Health{Dead: "startup probe failed"})
				if _, err := n.sync(p); err != nil {
					t.Fatal(err)
				}
				between(n)
				n.settle(p)
				n.expectState(p, "app", "running")
				if restarts := n.have(p).Container("app").RestartCount; restarts != 1 {
					t.Errorf("%d restarts", restarts)
				}
			})
		})
	}
}

// Its new image has to be pulled, while the container before it has ended with exit code 0.
func TestAContainerWhoseSpecChangedRunsAgainWhateverItsExitCodeIs(t *testing.T) {
	for name, between := range map[string]func(n *node){
		"the same agent": func(*node) {},
		"the next agent": (*node).restartAgent,
	} {
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure} {
			t.Run(fmt.Sprint(name, policy), func(t *testing.T) {
				onNode(t, 1, func(n *node) {
					p := web("a", "app")
					p.Spec.RestartPolicy = policy
					n.settle(p)
					p = p.DeepCopy()
					p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "NEW", Value: "1"}}
					n.images.set("app", &image.State{Reason: "ContainerCreating"})
					n.settle(p)
					n.expectState(p, "app", "ContainerCreating: ")
					between(n)
					n.images.set("app", nil)
					n.settle(p)
					n.expectState(p, "app", "running")
				})
			})
		}
	}
}

func TestWhatAProbeSaysIsInTheStatus(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		ready := func() bool {
			s, _ := n.Reports.Statuses.Get(p.UID)
			at := slices.IndexFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady })
			return s.ContainerStatuses[0].Ready && s.Conditions[at].Status == v1.ConditionTrue
		}
		for _, says := range []bool{false, true, false} {
			n.probes.SetHealth(n.have(p).Container("app").ID, pod.Health{Ready: &says})
			n.settle(p)
			if ready() != says {
				t.Errorf("the probe says %t, the status %t", says, ready())
			}
		}
	})
}
