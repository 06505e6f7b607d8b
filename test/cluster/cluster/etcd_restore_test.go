//go:build real

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

func TestANodeRegistersAgainAfterEtcdWasWiped(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager)
	n := kit.JoinNode(t, plane, "one")
	pods := kit.PodsIn(t, kit.Client(t, plane, control.Admin()), "default")
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("web", "activity", "wiped-web", "0s"), "one"))
	pods.Await("web", "ready", kit.IsReady)
	manifest := kit.AddStaticPod(t, n, "anchor")
	anchor := pods.Await("anchor-one", "ready", kit.IsReady)

	kit.Must(t, plane.WipeEtcd(t.Context()))

	// The node is there again, and runs pods.
	kit.Must(t, plane.AwaitNodes(t.Context()))
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("later", "sleep"), "one"))
	pods.Await("later", "ready", kit.IsReady)
	// Pods that are no longer bound to it are ended; static pods run on, and are mirrored.
	kit.AwaitNoProcess(t, kit.WaitTimeout, "wiped-web")
	kit.MustKeepInstance(t, pods.Await("anchor-one", "ready", kit.IsReady), kit.InstanceOf(anchor))

	pods.MustRemove("later")
	kit.Must(t, os.Remove(manifest))
	pods.Await("anchor-one", "gone", kit.IsGone)
}

func TestANodeFollowsAnEtcdThatWasRestoredFromABackup(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	kit.JoinNode(t, plane, "one")
	admin := kit.Client(t, plane, control.Admin())
	pods := kit.PodsIn(t, admin, "default")

	// Given a backup in which one pod is ready, and one runs that ends soon after.
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("web", "sleep"), "one"), kit.OnNode(kit.WithoutRestart(kit.WorkloadPod("ending", "exit", "4", "after", "20s")), "one"))
	web := kit.InstanceOf(pods.Await("web", "ready", kit.IsReady))
	pods.Await("ending", "ready", kit.IsReady)
	backup := filepath.Join(t.TempDir(), "backup")
	kit.Must(t, plane.BackUpEtcd(t.Context(), backup))
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("lost", "activity", "restored-lost", "0s"), "one"))
	pods.Await("lost", "ready", kit.IsReady)
	pods.Await("ending", "failed", kit.HasPhase(corev1.PodFailed))
	for i := range 300 { // the new server has a long way to the version that the old one had
		_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("news-", i)}}, kit.CreateOptions)
		kit.Must(t, err)
	}

	// When the server has the data of the backup again.
	kit.Must(t, plane.RestoreEtcd(t.Context(), backup))

	// Then new pods run, and those that the API server does not know any more end.
	kit.Must(t, plane.AwaitNodes(t.Context()))
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("new", "sleep"), "one"))
	pods.AwaitWithin(kit.ShortTimeout, "new", "ready", kit.IsReady)
	kit.AwaitNoProcess(t, kit.ShortTimeout, "restored-lost")
	// The statuses of the others since then are written again.
	pods.AwaitWithin(kit.ShortTimeout, "ending", "failed", func(p *corev1.Pod) bool {
		return kit.HasPhase(corev1.PodFailed)(p) && p.Status.ContainerStatuses[0].State.Terminated.ExitCode == 4
	})
	kit.MustKeepInstance(t, pods.AwaitWithin(kit.ShortTimeout, "web", "ready", kit.IsReady), web)
	pods.MustRemove("web", "ending", "new")
}
