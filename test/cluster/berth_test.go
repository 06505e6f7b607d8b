//go:build real

package cluster

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/lab/control"
)

func TestAMachineJoinsAndRunsPods(t *testing.T) {
	t.Parallel()
	plane := newPlane(t, control.ControllerManager, control.Scheduler)
	admin := clientOf(t, plane, control.Admin())
	n := joinNode(t, plane, "one")

	// The scheduler finds the node, and its pods run.
	pods := podsIn(t, admin, "default")
	pods.create(workloadPod("web", "serve", ":8080"))
	web := pods.await("web", "ready", isReady)
	if web.Spec.NodeName != "one" || web.Status.HostIP != n.Address {
		t.Errorf("it runs on %q at %q", web.Spec.NodeName, web.Status.HostIP)
	}

	// A job that ends says so, with its exit code.
	pods.create(once(workloadPod("job", "exit", "3")))
	ended := pods.await("job", "failed", hasPhase(corev1.PodFailed))
	if code := ended.Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 3 {
		t.Errorf("exit code %d", code)
	}

	// What the node can't do is refused with a reason.
	refused := workloadPod("refused", "sleep")
	refused.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{
		TargetPortal: "10.99.0.99:3260", IQN: "iqn.2030-01.example:disk",
	}}}}
	pods.create(refused)
	pods.await("refused", "refused", func(p *corev1.Pod) bool {
		return p != nil && p.Status.Phase == corev1.PodFailed && p.Status.Reason == "PodFeatureUnsupported"
	})

	// A container is added to the running pod, as kubectl debug does.
	web = addDebugContainer(t, admin, "web")

	// The agent is killed and comes back: the container is the same.
	n.Kill()
	must(t, n.Start())
	pods.create(workloadPod("later", "sleep"))
	pods.await("later", "ready", isReady)
	mustBeSame(t, pods.await("web", "ready", isReady), lifeOf(web))

	// What is deleted goes, whether it runs, ran, or never did.
	pods.remove("web", "job", "later", "refused")
}

func addDebugContainer(t *testing.T, admin kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	p := awaitPod(t, admin, name, "ready", isReady)
	before := lifeOf(p)
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: workloadImage, Args: []string{"sleep"}},
		TargetContainerName:      "app",
	}}
	_, err := admin.CoreV1().Pods("default").UpdateEphemeralContainers(t.Context(), name, p, metav1.UpdateOptions{})
	must(t, err)
	p = awaitPod(t, admin, name, "being debugged", func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.EphemeralContainerStatuses) == 1 && p.Status.EphemeralContainerStatuses[0].State.Running != nil
	})
	mustBeSame(t, p, before)
	return p
}

func TestAStaticPodHasAMirrorThatCannotStopIt(t *testing.T) {
	t.Parallel()
	l := sharedLab(t)
	pods := podsIn(t, clientOf(t, l, control.Admin()), "default")
	manifest := addStatic(t, l.Nodes()[0], "static")

	mirror := pods.await("static-one", "ready", isReady)

	// Deleted by hand, it comes back with the same container.
	must(t, pods.Delete(t.Context(), "static-one", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	again := pods.await("static-one", "back", func(p *corev1.Pod) bool { return isReady(p) && p.UID != mirror.UID })
	mustBeSame(t, again, lifeOf(mirror))

	// Once the file is gone, the mirror goes.
	must(t, os.Remove(manifest))
	pods.await("static-one", "gone", isGone)
}
