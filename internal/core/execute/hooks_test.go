package execute

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/pods/handler"
)

// doorbell notes which address hooks were sent to.
type doorbell struct{ rung []string }

func (d *doorbell) Run(_ context.Context, t handler.Target, _ *v1.LifecycleHandler) error {
	d.rung = append(d.rung, t.PodIP)
	return nil
}

func TestAPostStartHookFindsThePodInItsNewSandbox(t *testing.T) {
	onNode(t, 1, func(n *node) {
		// given a hook that connects to its pod
		bell := &doorbell{}
		n.Hooks = bell
		p := web("a", "app")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}},
		}
		// when the pod is made, and made anew with another name
		for round := range 2 {
			n.settle(p)
			// then the hook knows the address that the pod has now
			want := n.have(p).Sandboxes[0].IPs[0]
			if len(bell.rung) != round+1 || bell.rung[round] != want {
				t.Fatalf("the hook was sent to %q, and the pod is at %s", bell.rung, want)
			}
			p = p.DeepCopy()
			p.Spec.Hostname = "another"
		}
	})
}
