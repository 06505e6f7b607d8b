//go:build real

package core

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/cluster/kit"
)

// clinging is a pod that ignores SIGTERM, and may do so for ten minutes.
func clinging(name string) *corev1.Pod {
	p := kit.WorkloadPod(name, "cling", name)
	p.Spec.TerminationGracePeriodSeconds = new(int64(600))
	return p
}

func TestAPodThatIsDeletedByForceEndsAtOnce(t *testing.T) {
	t.Parallel()
	l, admin := kit.SharedNamespace(t, "force")
	pods := kit.PodsIn(t, admin, "force")
	pods.MustCreate(clinging("clings-force"))
	pods.Await("clings-force", "ready", kit.IsReady)

	kit.Kubectl(t, l, "-n", "force", "delete", "pod", "clings-force", "--grace-period=0", "--force", "--timeout=5s")

	kit.MustHavePods(t, admin, "force", 0)
	kit.AwaitNoProcess(t, kit.ShortTimeout, "clings-force")
}

func TestASecondDeletionShortensTheGrace(t *testing.T) {
	t.Parallel()
	l, admin := kit.SharedNamespace(t, "shorter")
	pods := kit.PodsIn(t, admin, "shorter")
	pods.MustCreate(clinging("clings-shorter"))
	pods.Await("clings-shorter", "ready", kit.IsReady)

	// Given a deletion that may take ten minutes, and that was begun.
	kit.Kubectl(t, l, "-n", "shorter", "delete", "pod", "clings-shorter", "--wait=false")
	deleted := pods.Await("clings-shorter", "being deleted", func(p *corev1.Pod) bool { return p != nil && p.DeletionTimestamp != nil })
	if grace := *deleted.DeletionGracePeriodSeconds; grace != 600 {
		t.Fatalf("it has %d s", grace)
	}
	if len(kit.ProcessesWith(t, "clings-shorter")) == 0 {
		t.Fatal("it ended already")
	}

	// When it is to take one second, then it takes about that.
	kit.Kubectl(t, l, "-n", "shorter", "delete", "pod", "clings-shorter", "--grace-period=1", "--timeout=10s")
	kit.MustHavePods(t, admin, "shorter", 0)
	kit.AwaitNoProcess(t, kit.ShortTimeout, "clings-shorter")
}

func TestAPodIsDeletedWhileItsImageIsPulled(t *testing.T) {
	t.Parallel()
	l, admin := kit.SharedNamespace(t, "pulling")
	pods := kit.PodsIn(t, admin, "pulling")

	// Given a registry that takes connections, and never says a word.
	registry, err := l.Nodes()[0].Namespace.Listen(t.Context(), "tcp", "127.0.0.1:5000")
	kit.Must(t, err)
	defer registry.Close()
	p := kit.OnNode(kit.WorkloadPod("pulling", "sleep"), "one")
	p.Spec.Containers[0].Image = registry.Addr().String() + "/slow:1"
	pods.MustCreate(p)
	connection, err := registry.Accept()
	kit.Must(t, err)
	defer connection.Close()

	// When the pod is deleted, it does not wait for the image.
	kit.Must(t, pods.Delete(t.Context(), "pulling", metav1.DeleteOptions{}))
	pods.AwaitWithin(kit.ShortTimeout, "pulling", "gone", kit.IsGone)
}

func TestAPodThatNeverStartedIsDeleted(t *testing.T) {
	t.Parallel()
	_, admin := kit.SharedNamespace(t, "never")
	pods := kit.PodsIn(t, admin, "never")

	// One that can't be started.
	p := kit.WorkloadPod("imageless", "sleep")
	p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "localhost/missing:1", corev1.PullNever
	pods.MustCreate(p)
	pods.Await("imageless", "waiting", func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) == 1 &&
			p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == "ErrImageNeverPull"
	})
	kit.Must(t, pods.Delete(t.Context(), "imageless", metav1.DeleteOptions{}))
	pods.AwaitWithin(kit.ShortTimeout, "imageless", "gone", kit.IsGone)

	// Ten pods that are deleted at once after their creation.
	for i := range 10 {
		name := fmt.Sprintf("hasty-%d", i)
		pods.MustCreate(kit.OnNode(kit.WorkloadPod(name, "activity", name, "0s"), "one"))
		kit.Must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	for i := range 10 {
		name := fmt.Sprintf("hasty-%d", i)
		pods.AwaitWithin(kit.ShortTimeout, name, "gone", kit.IsGone)
		kit.AwaitNoProcess(t, kit.ShortTimeout, name)
	}
}
