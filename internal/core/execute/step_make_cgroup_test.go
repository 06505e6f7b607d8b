package execute

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
)

func TestAPodWhoseCgroupVanishedIsMadeAnew(t *testing.T) {
	onNode(t, 2, func(n *node) {
		gone := false
		n.Host.CgroupExists = func(name string) bool { return name == "/test/besteffort/poda" && !gone }
		p := web("a", "app")
		n.Host.MakeCgroup = func(context.Context, render.Cgroup) error {
			if gone && n.have(p).Sandbox().State == pod.SandboxReady {
				t.Error("it is made while the pod runs outside of it")
			}
			gone = false
			return nil
		}
		n.settle(p)
		before := n.have(p).Sandbox().ID

		// when all is as it should be, then nothing happens
		n.settle(p)
		if n.have(p).Sandbox().ID != before {
			t.Fatal("the sandbox was replaced")
		}

		// when its cgroup is removed, then it has another sandbox, in a cgroup
		gone = true
		n.settle(p)
		if s := n.have(p).Sandbox(); s.ID == before || s.State != pod.SandboxReady || gone {
			t.Errorf("the sandbox is %+v, the cgroup is gone: %t", s, gone)
		}
		n.expectState(p, "app", "running")
	})
}

// A manifest with a UID of its own may be edited in place.
func TestAnotherClassIsNoVanishedCgroup(t *testing.T) {
	onNode(t, 2, func(n *node) {
		n.Host.CgroupExists = func(name string) bool { return name == "/test/besteffort/poda" }
		p := web("a", "app", "other")
		n.settle(p)
		before := n.have(p).Container("other").ID

		p = p.DeepCopy()
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		n.settle(p)
		if n.have(p).Container("other").ID != before {
			t.Error("a container that was not edited was replaced")
		}
	})
}
