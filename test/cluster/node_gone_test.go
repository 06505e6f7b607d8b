//go:build real

package cluster

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Not parallel: a node is away for a while.
func TestADeletedNodeComesBackAndItsPodsDoNotNotice(t *testing.T) {
	l, admin := sharedNamespace(t, "node-gone")
	pods := podsIn(t, admin, "node-gone")
	static := podsIn(t, admin, "default")
	pods.create(onNode(workloadPod("web", "sleep"), "two"))
	web := pods.await("web", "ready", isReady)
	manifest := addStatic(t, l.Nodes()[1], "anchor")
	anchor := static.await("anchor-two", "ready", isReady)
	before, err := admin.CoreV1().Nodes().Get(t.Context(), "two", get)
	must(t, err)

	kubectl(t, l, "delete", "node", "two")

	within(t, patience, func() error {
		node, err := admin.CoreV1().Nodes().Get(t.Context(), "two", get)
		if err == nil && node.UID == before.UID {
			err = fmt.Errorf("node two is still the old one")
		}
		return err
	})
	must(t, l.AwaitNodes(t.Context()))
	if after := pods.await("web", "ready", isReady); after.UID != web.UID {
		t.Errorf("the pod is another one")
	} else {
		mustBeSame(t, after, lifeOf(web))
	}
	mustBeSame(t, static.await("anchor-two", "ready", isReady), lifeOf(anchor))

	// It takes pods as before.
	pods.create(onNode(once(workloadPod("later", "exit", "0")), "two"))
	pods.await("later", "done", hasPhase(corev1.PodSucceeded))
	pods.remove("web", "later")
	must(t, os.Remove(manifest))
	static.await("anchor-two", "gone", isGone)
}
