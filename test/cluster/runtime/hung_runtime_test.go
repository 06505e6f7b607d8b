//go:build real

package runtime

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/cluster/kit"
	"berth/test/fixture"
	"berth/test/lab/control"
)

func TestANodeWhoseRuntimeHangsSaysSoAndLives(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")
	kit.Must(t, plane.AwaitNodes(t.Context()))
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("steady", "sleep"), "one"))
	steady := kit.InstanceOf(pods.Await("steady", "ready", kit.IsReady))
	seen := kit.WatchReady(t, admin, "one")
	renewedAfter := func(since time.Time) {
		t.Helper()
		kit.Within(t, kit.WaitTimeout, func() error {
			lease, err := admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "one", metav1.GetOptions{})
			if err == nil && !renewed(lease, since) {
				err = fmt.Errorf("the lease was renewed at %s", lease.Spec.RenewTime)
			}
			return err
		})
	}

	// Given a runtime that stands still, and an agent that is started meanwhile.
	kit.Must(t, n.Stop())
	hung := fixture.ContainerdPID(t, n.Root)
	t.Cleanup(func() { _ = syscall.Kill(hung, syscall.SIGCONT) })
	kit.Must(t, syscall.Kill(hung, syscall.SIGSTOP))
	stopped := time.Now()
	kit.Must(t, n.Start())

	// Then the Node shows why it is not ready, and its lease is renewed.
	why := seen.Await(corev1.ConditionFalse, stopped)
	if !strings.Contains(why.Message, "container runtime not ready: ") || !strings.Contains(why.Message, "Status") || !strings.Contains(why.Message, "not answered for ") {
		t.Errorf("it is not ready since %s", why.Message)
	}
	renewedAfter(why.At)
	// And its port answers.
	kit.MustGetURL(t, plane, "https://"+net.JoinHostPort(n.Address, "10250")+"/pods", "", "401 Unauthorized\n")
	if text, err := n.Berth("get", "pods", "-A"); err != nil || !strings.Contains(text, "steady") {
		t.Errorf("berth get pods: %v\n%s", err, text)
	}
	// And the pod is what it was, to all who ask the API server.
	kit.MustKeepInstance(t, pods.Await("steady", "ready", kit.IsReady), steady)

	// When it goes on, then the node is ready, and the pod was left alone.
	went := time.Now()
	kit.Must(t, syscall.Kill(hung, syscall.SIGCONT))
	seen.Await(corev1.ConditionTrue, went)
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("later", "sleep"), "one"))
	pods.Await("later", "ready", kit.IsReady)
	kit.MustKeepInstance(t, pods.Await("steady", "ready", kit.IsReady), steady)
}

// renewed reports whether a lease was renewed after a moment.
func renewed(lease *coordinationv1.Lease, since time.Time) bool {
	return lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(since)
}
