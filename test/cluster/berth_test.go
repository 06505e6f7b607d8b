//go:build real

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/internal/ociarchive"
	"berth/test/cluster/control"
	"berth/test/cluster/netns"
)

const workloadImage = "localhost/workload:1"

// berth is an agent that has joined a cluster.
type berth struct {
	t          *testing.T
	ns         *netns.Namespace
	root       string
	manifests  string
	kubeconfig string
	agent      *exec.Cmd
}

// joinBerth starts an agent as node "one" of a control plane.
func joinBerth(t *testing.T, plane *control.Plane) *berth {
	t.Helper()
	kubeconfig, err := plane.Kubeconfig(control.Node("one"))
	must(t, err)
	root, err := os.MkdirTemp("/tmp", "bn-")
	must(t, err)
	b := &berth{t: t, ns: plane.Namespace(), root: root, manifests: filepath.Join(root, "manifests"), kubeconfig: kubeconfig}
	must(t, os.MkdirAll(filepath.Join(root, "images"), 0o755))
	must(t, os.MkdirAll(b.manifests, 0o755))
	writeWorkloadImage(t, filepath.Join(root, "images", "workload.tar"))
	must(t, os.WriteFile(filepath.Join(root, "kubelet.yaml"), fmt.Appendf(nil,
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupRoot: /%s\n", filepath.Base(root)), 0o644))
	t.Cleanup(func() {
		b.kill(syscall.SIGTERM)
		if out, err := b.ns.Run(program("berth"), "down", "--root-dir", root); err != nil {
			t.Errorf("berth down: %v: %s", err, out)
		}
		if t.Failed() {
			log, _ := os.ReadFile(b.log())
			t.Logf("log of berth:\n%s", log)
		}
		must(t, os.RemoveAll(root))
	})
	b.start()
	return b
}

func program(name string) string {
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	if err != nil {
		panic(err)
	}
	return path
}

func (b *berth) log() string { return filepath.Join(b.root, "berth.log") }

func (b *berth) start() {
	b.t.Helper()
	log, err := os.OpenFile(b.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(b.t, err)
	defer log.Close()
	b.agent = exec.Command(program("berth"), "run", "--root-dir", b.root, "--manifests", b.manifests, "--hostname-override", "one",
		"--kubeconfig", b.kubeconfig, "--config", filepath.Join(b.root, "kubelet.yaml"), "--node-ip", planeAddress, "--pod-cidr", "10.202.0.0/24")
	b.agent.Stdout, b.agent.Stderr = log, log
	must(b.t, b.ns.Inside(b.agent.Start))
}

func (b *berth) kill(sig syscall.Signal) {
	if b.agent != nil {
		_ = b.agent.Process.Signal(sig)
		_ = b.agent.Wait()
		b.agent = nil
	}
}

func writeWorkloadImage(t *testing.T, path string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "workload")
	build := exec.Command("go", "build", "-o", binary, "../workload")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the workload: %v: %s", err, out)
	}
	data, err := os.ReadFile(binary)
	must(t, err)
	var archive bytes.Buffer
	must(t, ociarchive.Write(&archive, ociarchive.Image{
		Tag: workloadImage, Entrypoint: []string{"/workload"}, Files: []ociarchive.File{{Path: "/workload", Mode: 0o755, Data: data}},
	}))
	must(t, os.WriteFile(path, archive.Bytes(), 0o644))
}

func workloadPod(name string, args ...string) *corev1.Pod {
	grace := int64(2)
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "app", Image: workloadImage, Args: args, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
}

// awaitPod polls a pod until it is as wanted. A nil pod is one that is not there.
func awaitPod(t *testing.T, client kubernetes.Interface, name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var p *corev1.Pod
	for ctx.Err() == nil {
		got, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			p = nil
		case err != nil:
			t.Fatal(err)
		default:
			p = got
		}
		if is(p) {
			return p
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	t.Fatalf("pod %s is not %s: %+v", name, what, p)
	return nil
}

func isReady(p *corev1.Pod) bool {
	if p == nil || p.Status.PodIP == "" {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isGone(p *corev1.Pod) bool { return p == nil }

func TestAMachineJoinsAndRunsPods(t *testing.T) {
	t.Parallel()
	plane := newPlane(t, control.ControllerManager, control.Scheduler)
	admin := clientOf(t, plane, control.Admin())
	b := joinBerth(t, plane)

	// The scheduler finds the node, and its pods run.
	pods := admin.CoreV1().Pods("default")
	_, err := pods.Create(t.Context(), workloadPod("web", "serve", ":8080"), create)
	must(t, err)
	web := awaitPod(t, admin, "web", "ready", isReady)
	if web.Spec.NodeName != "one" || web.Status.HostIP != planeAddress {
		t.Errorf("it runs on %q at %q", web.Spec.NodeName, web.Status.HostIP)
	}

	// A job that ends says so, with its exit code.
	job := workloadPod("job", "exit", "3")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err = pods.Create(t.Context(), job, create)
	must(t, err)
	ended := awaitPod(t, admin, "job", "failed", func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == corev1.PodFailed })
	if code := ended.Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 3 {
		t.Errorf("exit code %d", code)
	}

	// What the node can't do is refused with a reason.
	refused := workloadPod("refused", "sleep")
	refused.Spec.Volumes = []corev1.Volume{{Name: "data"}}
	_, err = pods.Create(t.Context(), refused, create)
	must(t, err)
	awaitPod(t, admin, "refused", "refused", func(p *corev1.Pod) bool {
		return p != nil && p.Status.Phase == corev1.PodFailed && p.Status.Reason == "PodFeatureUnsupported"
	})

	// A container is added to the running pod, as kubectl debug does.
	web = addDebugContainer(t, admin, "web")

	// The agent is killed and comes back: the container is the same.
	before := web.Status.ContainerStatuses[0].ContainerID
	b.kill(syscall.SIGKILL)
	b.start()
	_, err = pods.Create(t.Context(), workloadPod("later", "sleep"), create)
	must(t, err)
	awaitPod(t, admin, "later", "ready", isReady)
	if after := awaitPod(t, admin, "web", "ready", isReady).Status.ContainerStatuses[0]; after.ContainerID != before || after.RestartCount != 0 {
		t.Errorf("the container changed: %+v, before %s", after, before)
	}

	// What is deleted goes, whether it runs, ran, or never did.
	all := []string{"web", "job", "later", "refused"}
	for _, name := range all {
		must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	for _, name := range all {
		awaitPod(t, admin, name, "gone", isGone)
	}
}

func addDebugContainer(t *testing.T, admin kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	p := awaitPod(t, admin, name, "ready", isReady)
	before := p.Status.ContainerStatuses[0].ContainerID
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: workloadImage, Args: []string{"sleep"}},
		TargetContainerName:      "app",
	}}
	_, err := admin.CoreV1().Pods("default").UpdateEphemeralContainers(t.Context(), name, p, metav1.UpdateOptions{})
	must(t, err)
	p = awaitPod(t, admin, name, "being debugged", func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.EphemeralContainerStatuses) == 1 && p.Status.EphemeralContainerStatuses[0].State.Running != nil
	})
	if after := p.Status.ContainerStatuses[0].ContainerID; after != before {
		t.Errorf("the main container changed: %s, before %s", after, before)
	}
	return p
}

func TestAStaticPodHasAMirrorThatCannotStopIt(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	admin := clientOf(t, plane, control.Admin())
	b := joinBerth(t, plane)
	manifest := filepath.Join(b.manifests, "static.yaml")
	must(t, os.WriteFile(manifest, []byte(`apiVersion: v1
kind: Pod
metadata: {name: static}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "`+workloadImage+`", args: [sleep]}
`), 0o644))

	mirror := awaitPod(t, admin, "static-one", "ready", isReady)

	// Deleted by hand, it comes back with the same container.
	zero := int64(0)
	must(t, admin.CoreV1().Pods("default").Delete(t.Context(), "static-one", metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	again := awaitPod(t, admin, "static-one", "back", func(p *corev1.Pod) bool { return isReady(p) && p.UID != mirror.UID })
	if is, was := again.Status.ContainerStatuses[0].ContainerID, mirror.Status.ContainerStatuses[0].ContainerID; is != was {
		t.Errorf("the container changed: %s, before %s", is, was)
	}

	// Once the file is gone, the mirror goes.
	must(t, os.Remove(manifest))
	awaitPod(t, admin, "static-one", "gone", isGone)
}
