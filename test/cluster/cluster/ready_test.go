//go:build real

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth/test/cluster/kit"
	"berth/test/fixture"
	"berth/test/lab/control"
)

func TestReadyFollowsTheRuntimeAndTheNetwork(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")
	kit.Must(t, plane.AwaitNodes(t.Context()))
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("steady", "sleep"), "one"))
	steady := kit.InstanceOf(pods.Await("steady", "ready", kit.IsReady))
	seen := kit.WatchReady(t, admin, "one")
	seen.Await(corev1.ConditionTrue, time.Time{})

	// follows does something, and returns why the node is then as wanted. The agent's own
	// log tells when it knew, and the cluster has to know a second later.
	follows := func(what string, do func() error, logs string, want corev1.ConditionStatus) string {
		t.Helper()
		mark := kit.MarkLog(t, n)
		began := time.Now()
		kit.Must(t, do())
		shown := seen.Await(want, began)
		knew := mark.TimeOf(t, logs)
		t.Logf("%s: the agent knew after %s, and the cluster %s later", what, knew.Sub(began).Round(time.Millisecond), shown.At.Sub(knew).Round(time.Millisecond))
		if late := shown.At.Sub(knew); late > time.Second {
			t.Errorf("%s: the cluster knew %s after the agent", what, late)
		}
		return shown.Message
	}

	// Without a network the node is not ready, and says why, as soon as that is known.
	network := filepath.Join(n.Root, "cni", "conf", "berth.conflist")
	why := follows("the network goes", func() error { return os.Rename(network, network+".away") }, "the network of pods is not ready", corev1.ConditionFalse)
	if !strings.Contains(why, "container runtime network not ready") {
		t.Errorf("it is not ready since %s", why)
	}
	follows("the network is back", func() error { return os.Rename(network+".away", network) }, "the network of pods is ready again", corev1.ConditionTrue)

	// A runtime that dies is started again, and the node is ready all the while.
	before, ready := fixture.ContainerdPID(t, n.Root), len(seen.Unready())
	mark := kit.MarkLog(t, n)
	killed := time.Now()
	kit.Must(t, syscall.Kill(before, syscall.SIGKILL))
	kit.Within(t, kit.WaitTimeout, func() error {
		if !strings.Contains(mark.Since(t), "containerd is up again") {
			return fmt.Errorf("containerd is not up again: %s", mark.Since(t))
		}
		return nil
	})
	t.Logf("containerd was up again %s after it was killed", mark.TimeOf(t, "containerd is up again").Sub(killed).Round(time.Millisecond))
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("later", "sleep"), "one"))
	pods.Await("later", "ready", kit.IsReady)
	if after := fixture.ContainerdPID(t, n.Root); after == before {
		t.Errorf("containerd is still process %d", after)
	}
	if why := seen.Unready(); len(why) != ready {
		t.Errorf("the node was not ready: %q", why)
	}

	// One that hangs gets some time. Then the node is not ready, until it answers.
	hung := fixture.ContainerdPID(t, n.Root)
	t.Cleanup(func() { _ = syscall.Kill(hung, syscall.SIGCONT) })
	why = follows("the runtime hangs", func() error { return syscall.Kill(hung, syscall.SIGSTOP) }, "the container runtime is not ready", corev1.ConditionFalse)
	if !strings.Contains(why, "container runtime not ready") || strings.Contains(why, "network") {
		t.Errorf("it is not ready since %s", why)
	}
	follows("the runtime answers again", func() error { return syscall.Kill(hung, syscall.SIGCONT) }, "the container runtime is ready again", corev1.ConditionTrue)
	kit.MustKeepInstance(t, pods.Await("steady", "ready", kit.IsReady), steady)
}
