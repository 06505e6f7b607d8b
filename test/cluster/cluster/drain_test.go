//go:build real

package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

// Not parallel: a node is closed for a while.
func TestDrainMovesPodsAndLeavesStaticOnes(t *testing.T) {
	l, admin := kit.SharedNamespace(t, "drain")
	two := l.Nodes()[1]

	// Given a deployment on both nodes, and a static pod.
	_, err := admin.AppsV1().Deployments("drain").Create(t.Context(), kit.WorkloadDeployment("web", 6, "serve", ":8080"), kit.CreateOptions)
	kit.Must(t, err)
	kit.Kubectl(t, l, "-n", "drain", "rollout", "status", "deployment/web", "--timeout=60s")
	manifest := kit.AddStaticPod(t, two, "fixture")
	static := kit.PodsIn(t, kit.Client(t, l, control.Admin()), "default")
	before := static.Await("fixture-two", "ready", kit.IsReady)

	// When one node is drained.
	kit.Kubectl(t, l, "drain", "two", "--timeout=60s")

	// Then all pods of the deployment are on the other, and the static pod runs on.
	kit.AwaitPods(t, admin, "drain", func(all []corev1.Pod) bool {
		for _, p := range all {
			if p.Spec.NodeName != "one" {
				return false
			}
		}
		return len(all) == 6 && kit.AllReady(all)
	})
	kit.MustKeepInstance(t, static.Await("fixture-two", "ready", kit.IsReady), kit.InstanceOf(before))
	if status := kit.TableRow(t, kit.Kubectl(t, l, "get", "nodes"), "two")["STATUS"]; status != "Ready,SchedulingDisabled" {
		t.Errorf("the drained node is %q", status)
	}

	// Opened again, the node takes pods.
	kit.Kubectl(t, l, "uncordon", "two")
	kit.Kubectl(t, l, "-n", "drain", "scale", "deployment/web", "--replicas=12")
	kit.AwaitPods(t, admin, "drain", func(all []corev1.Pod) bool {
		there := 0
		for _, p := range all {
			if p.Spec.NodeName == "two" {
				there++
			}
		}
		return len(all) == 12 && kit.AllReady(all) && there > 0
	})

	kit.Kubectl(t, l, "-n", "drain", "delete", "deployment", "web")
	kit.AwaitPods(t, admin, "drain", func(all []corev1.Pod) bool { return len(all) == 0 })
	kit.Must(t, os.Remove(manifest))
	static.Await("fixture-two", "gone", kit.IsGone)
}

// Not parallel: a node is closed for a while.
func TestBerthDrainEndsThePodsOfItsNode(t *testing.T) {
	l, admin := kit.SharedNamespace(t, "down")
	two := l.Nodes()[1]
	pods := kit.PodsIn(t, admin, "down")
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("guest", "sleep"), "two"))
	pods.Await("guest", "ready", kit.IsReady)
	manifest := kit.AddStaticPod(t, two, "host")
	static := kit.PodsIn(t, admin, "default")
	static.Await("host-two", "ready", kit.IsReady)

	// When the machine is drained.
	out, err := two.Berth("drain")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// Then the cluster sees why its pods ended, and that the node takes no others.
	ended := pods.Await("guest", "ended", kit.HasPhase(corev1.PodFailed))
	if ended.Status.Reason != "Terminated" || kit.PodCondition(ended, corev1.DisruptionTarget) != corev1.ConditionTrue {
		t.Errorf("guest ended as %s with %+v", ended.Status.Reason, ended.Status.Conditions)
	}
	kit.Within(t, kit.WaitTimeout, func() error {
		row := kit.TableRow(t, kit.Kubectl(t, l, "get", "nodes"), "two")
		if !strings.HasPrefix(row["STATUS"], "NotReady") {
			return fmt.Errorf("the node is %s", row["STATUS"])
		}
		return nil
	})
	if text := kit.Kubectl(t, l, "describe", "node", "two"); !strings.Contains(text, "it was drained; 'berth drain --undo' lets pods run again") {
		t.Errorf("the node does not say that it was drained:\n%s", text)
	}
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("late", "sleep"), "two"))
	if p := pods.Await("late", "refused", kit.HasPhase(corev1.PodFailed)); p.Status.Reason != "NodeShutdown" {
		t.Errorf("late was refused as %s", p.Status.Reason)
	}

	// When that is undone, then the node is ready, and its static pod runs again.
	if out, err := two.Berth("drain", "--undo"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again := static.Await("host-two", "ready", kit.IsReady)
	if c := again.Status.ContainerStatuses[0]; c.RestartCount != 0 || kit.PodCondition(again, corev1.DisruptionTarget) != "" || again.Status.Reason != "" {
		t.Errorf("its end counts in its new life: %+v", again.Status)
	}
	kit.Must(t, l.AwaitNodes(t.Context()))
	pods.MustRemove("guest", "late")
	kit.Must(t, os.Remove(manifest))
	static.Await("host-two", "gone", kit.IsGone)
}
