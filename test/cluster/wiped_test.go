//go:build real

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/lab/control"
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

func TestANodeFollowsAnEtcdThatWasRestoredFromABackup(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	joinNode(t, plane, "one")
	admin := clientOf(t, plane, control.Admin())
	pods := podsIn(t, admin, "default")

	// Given a backup in which one pod is ready, and one runs that ends soon after.
	pods.create(onNode(workloadPod("web", "sleep"), "one"), onNode(once(workloadPod("ending", "exit", "4", "after", "20s")), "one"))
	web := lifeOf(pods.await("web", "ready", isReady))
	pods.await("ending", "ready", isReady)
	backup := filepath.Join(t.TempDir(), "backup")
	must(t, plane.BackUpEtcd(t.Context(), backup))
	pods.create(onNode(workloadPod("lost", "diary", "restored-lost", "0s"), "one"))
	pods.await("lost", "ready", isReady)
	pods.await("ending", "failed", hasPhase(corev1.PodFailed))
	for i := range 300 { // the new server has a long way to the version that the old one had
		_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("news-", i)}}, create)
		must(t, err)
	}

	// When the server has the data of the backup again.
	must(t, plane.RestoreEtcd(t.Context(), backup))

	// Then new pods run, and those that nobody knows any more end.
	must(t, plane.AwaitNodes(t.Context()))
	pods.create(onNode(workloadPod("new", "sleep"), "one"))
	pods.awaitWithin(soon, "new", "ready", isReady)
	awaitNoProcess(t, soon, "restored-lost")
	// What became of the others since then is told again.
	pods.awaitWithin(soon, "ending", "failed", func(p *corev1.Pod) bool {
		return hasPhase(corev1.PodFailed)(p) && p.Status.ContainerStatuses[0].State.Terminated.ExitCode == 4
	})
	mustBeSame(t, pods.awaitWithin(soon, "web", "ready", isReady), web)
	pods.remove("web", "ending", "new")
}
