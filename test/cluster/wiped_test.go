//go:build real

package cluster

import (
	"os"
	"testing"

	"berth/test/cluster/control"
)

func TestANodeRegistersAgainAfterEtcdWasWiped(t *testing.T) {
	t.Parallel()
	plane := newPlane(t, control.ControllerManager)
	n := joinNode(t, plane, "one")
	pods := podsIn(t, clientOf(t, plane, control.Admin()), "default")
	pods.create(onNode(workloadPod("web", "diary", "wiped-web", "0s"), "one"))
	pods.await("web", "ready", isReady)
	manifest := addStatic(t, n, "anchor")
	anchor := pods.await("anchor-one", "ready", isReady)

	must(t, plane.WipeEtcd(t.Context()))

	// The node is there again, and runs pods.
	must(t, plane.AwaitNodes(t.Context()))
	pods.create(onNode(workloadPod("later", "sleep"), "one"))
	pods.await("later", "ready", isReady)
	// What nobody has bound to it any more is ended; what its own folder says runs on, and is shown.
	awaitNoProcess(t, patience, "wiped-web")
	mustBeSame(t, pods.await("anchor-one", "ready", isReady), lifeOf(anchor))

	pods.remove("later")
	must(t, os.Remove(manifest))
	pods.await("anchor-one", "gone", isGone)
}
