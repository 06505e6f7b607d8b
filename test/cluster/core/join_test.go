//go:build real

package core

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

func TestAMachineJoinsAndRunsPods(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager, control.Scheduler)
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")

	// The scheduler finds the node, and its pods run.
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.WorkloadPod("web", "serve", ":8080"))
	web := pods.Await("web", "ready", kit.IsReady)
	if web.Spec.NodeName != "one" || web.Status.HostIP != n.Address {
		t.Errorf("it runs on %q at %q", web.Spec.NodeName, web.Status.HostIP)
	}

	// A job that ends says so, with its exit code.
	pods.MustCreate(kit.WithoutRestart(kit.WorkloadPod("job", "exit", "3")))
	ended := pods.Await("job", "failed", kit.HasPhase(corev1.PodFailed))
	if code := ended.Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 3 {
		t.Errorf("exit code %d", code)
	}

	// What the node can't do is refused with a reason.
	refused := kit.WorkloadPod("refused", "sleep")
	refused.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: new("ContainerUser")}}
	pods.MustCreate(refused)
	pods.Await("refused", "refused", func(p *corev1.Pod) bool {
		return p != nil && p.Status.Phase == corev1.PodFailed && p.Status.Reason == "PodFeatureUnsupported"
	})

	// A container is added to the running pod, as kubectl debug does.
	web = addDebugContainer(t, admin, "web")

	// The agent is killed and comes back: the container is the same.
	n.Kill()
	kit.Must(t, n.Start())
	pods.MustCreate(kit.WorkloadPod("later", "sleep"))
	pods.Await("later", "ready", kit.IsReady)
	kit.MustKeepInstance(t, pods.Await("web", "ready", kit.IsReady), kit.InstanceOf(web))

	// What is deleted goes, whether it runs, ran, or never did.
	pods.MustRemove("web", "job", "later", "refused")
}

func addDebugContainer(t *testing.T, admin kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	p := kit.AwaitPod(t, admin, name, "ready", kit.IsReady)
	before := kit.InstanceOf(p)
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: kit.WorkloadImage, Args: []string{"sleep"}},
		TargetContainerName:      "app",
	}}
	_, err := admin.CoreV1().Pods("default").UpdateEphemeralContainers(t.Context(), name, p, metav1.UpdateOptions{})
	kit.Must(t, err)
	p = kit.AwaitPod(t, admin, name, "being debugged", func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.EphemeralContainerStatuses) == 1 && p.Status.EphemeralContainerStatuses[0].State.Running != nil
	})
	kit.MustKeepInstance(t, p, before)
	return p
}

func TestAStaticPodHasAMirrorThatCannotStopIt(t *testing.T) {
	t.Parallel()
	l := kit.SharedLab(t)
	pods := kit.PodsIn(t, kit.Client(t, l, control.Admin()), "default")
	manifest := kit.AddStaticPod(t, l.Nodes()[0], "static")

	mirror := pods.Await("static-one", "ready", kit.IsReady)

	// Deleted by hand, it comes back with the same container.
	kit.Must(t, pods.Delete(t.Context(), "static-one", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	again := pods.Await("static-one", "back", func(p *corev1.Pod) bool { return kit.IsReady(p) && p.UID != mirror.UID })
	kit.MustKeepInstance(t, again, kit.InstanceOf(mirror))

	// Once the file is gone, the mirror goes.
	kit.Must(t, os.Remove(manifest))
	pods.Await("static-one", "gone", kit.IsGone)
}
