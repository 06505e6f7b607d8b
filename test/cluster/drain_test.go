//go:build real

package cluster

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth/test/cluster/control"
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
