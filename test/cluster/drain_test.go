//go:build real

package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth/test/lab/control"
)

// Not parallel: a node is closed for a while.
func TestDrainMovesPodsAndLeavesStaticOnes(t *testing.T) {
	l, admin := sharedNamespace(t, "drain")
	two := l.Nodes()[1]

	// Given a deployment on both nodes, and a static pod.
	_, err := admin.AppsV1().Deployments("drain").Create(t.Context(), workloadDeployment("web", 6, "serve", ":8080"), create)
	must(t, err)
	kubectl(t, l, "-n", "drain", "rollout", "status", "deployment/web", "--timeout=60s")
	manifest := addStatic(t, two, "fixture")
	static := podsIn(t, clientOf(t, l, control.Admin()), "default")
	before := static.await("fixture-two", "ready", isReady)

	// When one node is drained.
	kubectl(t, l, "drain", "two", "--timeout=60s")

	// Then all pods of the deployment are on the other, and the static pod runs on.
	awaitPods(t, admin, "drain", func(all []corev1.Pod) bool {
		for _, p := range all {
			if p.Spec.NodeName != "one" {
				return false
			}
		}
		return len(all) == 6 && allReady(all)
	})
	mustBeSame(t, static.await("fixture-two", "ready", isReady), lifeOf(before))
	if status := rowOf(t, kubectl(t, l, "get", "nodes"), "two")["STATUS"]; status != "Ready,SchedulingDisabled" {
		t.Errorf("the drained node is %q", status)
	}

	// Opened again, the node takes pods.
	kubectl(t, l, "uncordon", "two")
	kubectl(t, l, "-n", "drain", "scale", "deployment/web", "--replicas=12")
	awaitPods(t, admin, "drain", func(all []corev1.Pod) bool {
		there := 0
		for _, p := range all {
			if p.Spec.NodeName == "two" {
				there++
			}
		}
		return len(all) == 12 && allReady(all) && there > 0
	})

	kubectl(t, l, "-n", "drain", "delete", "deployment", "web")
	awaitPods(t, admin, "drain", func(all []corev1.Pod) bool { return len(all) == 0 })
	must(t, os.Remove(manifest))
	static.await("fixture-two", "gone", isGone)
}

// Not parallel: a node is closed for a while.
func TestBerthDrainEndsThePodsOfItsNode(t *testing.T) {
	l, admin := sharedNamespace(t, "down")
	two := l.Nodes()[1]
	pods := podsIn(t, admin, "down")
	pods.create(onNode(workloadPod("guest", "sleep"), "two"))
	pods.await("guest", "ready", isReady)
	manifest := addStatic(t, two, "host")
	static := podsIn(t, admin, "default")
	static.await("host-two", "ready", isReady)

	// When the machine is drained.
	out, err := two.Berth("drain")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// Then the cluster sees why its pods ended, and that the node takes no others.
	ended := pods.await("guest", "ended", hasPhase(corev1.PodFailed))
	if ended.Status.Reason != "Terminated" || condition(ended, corev1.DisruptionTarget) != corev1.ConditionTrue {
		t.Errorf("guest ended as %s with %+v", ended.Status.Reason, ended.Status.Conditions)
	}
	within(t, patience, func() error {
		row := rowOf(t, kubectl(t, l, "get", "nodes"), "two")
		if !strings.HasPrefix(row["STATUS"], "NotReady") {
			return fmt.Errorf("the node is %s", row["STATUS"])
		}
		return nil
	})
	if text := kubectl(t, l, "describe", "node", "two"); !strings.Contains(text, "it was drained; 'berth drain --undo' lets pods run again") {
		t.Errorf("the node does not say that it was drained:\n%s", text)
	}
	pods.create(onNode(workloadPod("late", "sleep"), "two"))
	if p := pods.await("late", "refused", hasPhase(corev1.PodFailed)); p.Status.Reason != "NodeShutdown" {
		t.Errorf("late was refused as %s", p.Status.Reason)
	}

	// When that is undone, then the node is ready, and its static pod runs again.
	if out, err := two.Berth("drain", "--undo"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again := static.await("host-two", "ready", isReady)
	if c := again.Status.ContainerStatuses[0]; c.RestartCount != 0 || condition(again, corev1.DisruptionTarget) != "" || again.Status.Reason != "" {
		t.Errorf("its end counts in its new life: %+v", again.Status)
	}
	must(t, l.AwaitNodes(t.Context()))
	pods.remove("guest", "late")
	must(t, os.Remove(manifest))
	static.await("host-two", "gone", isGone)
}
