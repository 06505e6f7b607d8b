//go:build real

package cluster

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth/test/cluster/kit"
)

// Not parallel: a node is away for a while.
func TestADeletedNodeComesBackAndItsPodsDoNotNotice(t *testing.T) {
	l, admin := kit.SharedNamespace(t, "node-gone")
	pods := kit.PodsIn(t, admin, "node-gone")
	static := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("web", "sleep"), "two"))
	web := pods.Await("web", "ready", kit.IsReady)
	manifest := kit.AddStaticPod(t, l.Nodes()[1], "anchor")
	anchor := static.Await("anchor-two", "ready", kit.IsReady)
	before, err := admin.CoreV1().Nodes().Get(t.Context(), "two", kit.GetOptions)
	kit.Must(t, err)

	kit.Kubectl(t, l, "delete", "node", "two")

	kit.Within(t, kit.WaitTimeout, func() error {
		node, err := admin.CoreV1().Nodes().Get(t.Context(), "two", kit.GetOptions)
		if err == nil && node.UID == before.UID {
			err = fmt.Errorf("node two is still the old one")
		}
		return err
	})
	kit.Must(t, l.AwaitNodes(t.Context()))
	if after := pods.Await("web", "ready", kit.IsReady); after.UID != web.UID {
		t.Errorf("the pod is another one")
	} else {
		kit.MustKeepInstance(t, after, kit.InstanceOf(web))
	}
	kit.MustKeepInstance(t, static.Await("anchor-two", "ready", kit.IsReady), kit.InstanceOf(anchor))

	// It takes pods as before.
	pods.MustCreate(kit.OnNode(kit.WithoutRestart(kit.WorkloadPod("later", "exit", "0")), "two"))
	pods.Await("later", "done", kit.HasPhase(corev1.PodSucceeded))
	pods.MustRemove("web", "later")
	kit.Must(t, os.Remove(manifest))
	static.Await("anchor-two", "gone", kit.IsGone)
}
