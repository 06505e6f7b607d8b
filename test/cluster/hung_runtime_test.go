//go:build real

package cluster

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

	"berth/test/lab/control"
)

func TestANodeWhoseRuntimeHangsSaysSoAndLives(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	admin := clientOf(t, plane, control.Admin())
	n := joinNode(t, plane, "one")
	must(t, plane.AwaitNodes(t.Context()))
	pods := podsIn(t, admin, "default")
	pods.create(onNode(workloadPod("steady", "sleep"), "one"))
	steady := lifeOf(pods.await("steady", "ready", isReady))
	seen := watchReady(t, admin, "one")
	renewedAfter := func(since time.Time) {
		t.Helper()
		within(t, patience, func() error {
			lease, err := admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "one", metav1.GetOptions{})
			if err == nil && !renewed(lease, since) {
				err = fmt.Errorf("the lease was renewed at %s", lease.Spec.RenewTime)
			}
			return err
		})
	}

	// Given a runtime that stands still, and an agent that is started meanwhile.
	must(t, n.Stop())
	hung := containerdOf(t, n)
	t.Cleanup(func() { _ = syscall.Kill(hung, syscall.SIGCONT) })
	must(t, syscall.Kill(hung, syscall.SIGSTOP))
	stopped := time.Now()
	must(t, n.Start())

	// Then the cluster is told why the node is not ready, and that it lives.
	why := seen.await(corev1.ConditionFalse, stopped)
	if !strings.Contains(why.message, "container runtime not ready: ") || !strings.Contains(why.message, "Status") || !strings.Contains(why.message, "not answered for ") {
		t.Errorf("it is not ready since %s", why.message)
	}
	renewedAfter(why.at)
	// And its port answers.
	mustAnswer(t, plane, "https://"+net.JoinHostPort(n.Address, "10250")+"/pods", "", "401 Unauthorized\n")
	if text, err := n.Berth("get", "pods", "-A"); err != nil || !strings.Contains(text, "steady") {
		t.Errorf("berth get pods: %v\n%s", err, text)
	}
	// And the pod is what it was, to all who ask the API server.
	mustBeSame(t, pods.await("steady", "ready", isReady), steady)

	// When it goes on, then the node is ready, and the pod was left alone.
	went := time.Now()
	must(t, syscall.Kill(hung, syscall.SIGCONT))
	seen.await(corev1.ConditionTrue, went)
	pods.create(onNode(workloadPod("later", "sleep"), "one"))
	pods.await("later", "ready", isReady)
	mustBeSame(t, pods.await("steady", "ready", isReady), steady)
}

// renewed tells whether a lease was renewed after a moment.
func renewed(lease *coordinationv1.Lease, since time.Time) bool {
	return lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(since)
}
