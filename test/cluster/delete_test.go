//go:build real

package cluster

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// soon is for the end of what is told to end at once, on a busy machine.
const soon = 10 * time.Second

// clinging is a pod that ignores SIGTERM, and may do so for ten minutes.
func clinging(name string) *corev1.Pod {
	p := workloadPod(name, "cling", name)
	p.Spec.TerminationGracePeriodSeconds = new(int64(600))
	return p
}

func TestAPodThatIsDeletedByForceEndsAtOnce(t *testing.T) {
	t.Parallel()
	l, admin := sharedNamespace(t, "force")
	pods := podsIn(t, admin, "force")
	pods.create(clinging("clings-force"))
	pods.await("clings-force", "ready", isReady)

	kubectl(t, l, "-n", "force", "delete", "pod", "clings-force", "--grace-period=0", "--force", "--timeout=5s")

	mustHavePods(t, admin, "force", 0)
	awaitNoProcess(t, soon, "clings-force")
}

func TestASecondDeletionShortensTheGrace(t *testing.T) {
	t.Parallel()
	l, admin := sharedNamespace(t, "shorter")
	pods := podsIn(t, admin, "shorter")
	pods.create(clinging("clings-shorter"))
	pods.await("clings-shorter", "ready", isReady)

	// Given a deletion that may take ten minutes, and that was begun.
	kubectl(t, l, "-n", "shorter", "delete", "pod", "clings-shorter", "--wait=false")
	deleted := pods.await("clings-shorter", "being deleted", func(p *corev1.Pod) bool { return p != nil && p.DeletionTimestamp != nil })
	if grace := *deleted.DeletionGracePeriodSeconds; grace != 600 {
		t.Fatalf("it has %d s", grace)
	}
	if len(processes(t, "clings-shorter")) == 0 {
		t.Fatal("it ended already")
	}

	// When it is to take one second, then it takes about that.
	kubectl(t, l, "-n", "shorter", "delete", "pod", "clings-shorter", "--grace-period=1", "--timeout=10s")
	mustHavePods(t, admin, "shorter", 0)
	awaitNoProcess(t, soon, "clings-shorter")
}

func TestAPodIsDeletedWhileItsImageIsPulled(t *testing.T) {
	t.Parallel()
	l, admin := sharedNamespace(t, "pulling")
	pods := podsIn(t, admin, "pulling")

	// Given a registry that takes connections, and never says a word.
	registry, err := l.Nodes()[0].Namespace.Listen(t.Context(), "tcp", "127.0.0.1:5000")
	must(t, err)
	defer registry.Close()
	p := onNode(workloadPod("pulling", "sleep"), "one")
	p.Spec.Containers[0].Image = registry.Addr().String() + "/slow:1"
	pods.create(p)
	connection, err := registry.Accept()
	must(t, err)
	defer connection.Close()

	// When the pod is deleted, nobody waits for the image.
	must(t, pods.Delete(t.Context(), "pulling", metav1.DeleteOptions{}))
	pods.awaitWithin(soon, "pulling", "gone", isGone)
}

func TestAPodThatNeverStartedIsDeleted(t *testing.T) {
	t.Parallel()
	_, admin := sharedNamespace(t, "never")
	pods := podsIn(t, admin, "never")

	// One that can't be started.
	p := workloadPod("imageless", "sleep")
	p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "localhost/missing:1", corev1.PullNever
	pods.create(p)
	pods.await("imageless", "waiting", func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) == 1 &&
			p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == "ErrImageNeverPull"
	})
	must(t, pods.Delete(t.Context(), "imageless", metav1.DeleteOptions{}))
	pods.awaitWithin(soon, "imageless", "gone", isGone)

	// Ten that are deleted before anybody could have looked at them.
	for i := range 10 {
		name := fmt.Sprintf("hasty-%d", i)
		pods.create(onNode(workloadPod(name, "diary", name, "0s"), "one"))
		must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	for i := range 10 {
		name := fmt.Sprintf("hasty-%d", i)
		pods.awaitWithin(soon, name, "gone", isGone)
		awaitNoProcess(t, soon, name)
	}
}
