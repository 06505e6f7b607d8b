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
	"berth/test/lab"
)

// addStaticOf gives a node a static pod of one container, which runs once, and returns
// its manifest.
func addStaticOf(t *testing.T, n *lab.Node, name, container string) string {
	t.Helper()
	manifest := filepath.Join(n.Manifests, name+".yaml")
	kit.Must(t, os.WriteFile(manifest, fmt.Appendf(nil, `apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  containers:
  - {name: app, image: %q, %s}
`, name, kit.WorkloadImage, container), 0o644))
	return manifest
}

// Not parallel: a node is without its agent for a while, and is made anew.
func TestAStaticPodThatDoesNotRunHasAMirror(t *testing.T) {
	l, admin := kit.SharedNamespace(t, "mirrors")
	two, pods := l.Nodes()[1], kit.PodsIn(t, admin, "default")

	// Given static pods of which one has ended, and one can't run here.
	manifests := []string{
		addStaticOf(t, two, "ended", "args: [exit, '3']"),
		addStaticOf(t, two, "refused", "args: [sleep], resources: {requests: {cpu: '1000'}}"),
	}
	says := map[string]func(*corev1.Pod) bool{
		"ended-two": func(p *corev1.Pod) bool {
			return kit.HasPhase(corev1.PodFailed)(p) && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Terminated.ExitCode == 3
		},
		"refused-two": func(p *corev1.Pod) bool { return kit.HasPhase(corev1.PodFailed)(p) && p.Status.Reason == "OutOfcpu" },
	}
	seen := map[string]*corev1.Pod{}
	for name, says := range says {
		seen[name] = pods.Await(name, "shown", says)
	}
	comeBack := func(when string) {
		t.Helper()
		for name, says := range says {
			before := seen[name]
			seen[name] = pods.Await(name, "back, after "+when, func(p *corev1.Pod) bool { return says(p) && p.UID != before.UID })
			kit.MustKeepInstance(t, seen[name], kit.InstanceOf(before))
		}
	}
	remove := func() {
		t.Helper()
		for name := range says {
			kit.Must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		}
	}

	remove()
	comeBack("they were deleted")

	kit.Must(t, two.Stop())
	remove()
	kit.Must(t, two.Start())
	comeBack("they were deleted while there was no agent")

	kit.Kubectl(t, l, "delete", "node", "two")
	comeBack("the node was made anew")
	kit.Must(t, l.AwaitNodes(t.Context()))

	// Once the files are gone, the mirrors go.
	for _, manifest := range manifests {
		kit.Must(t, os.Remove(manifest))
	}
	for name := range says {
		pods.Await(name, "gone", kit.IsGone)
	}
}

func TestAStaticPodWhoseFileIsWrittenAgainIsMadeAnew(t *testing.T) {
	l, admin := kit.SharedNamespace(t, "rewritten")
	two, pods := l.Nodes()[1], kit.PodsIn(t, admin, "default")
	manifest := addStaticOf(t, two, "rewritten", "args: [sleep]")
	before := pods.Await("rewritten-two", "running", kit.HasPhase(corev1.PodRunning))
	text, err := os.ReadFile(manifest)
	kit.Must(t, err)

	// When the file is removed and written again at once, then the pod and its mirror are others.
	kit.Must(t, os.Remove(manifest))
	kit.Must(t, os.WriteFile(manifest, text, 0o644))
	pods.Await("rewritten-two", "made anew, with a restart", func(p *corev1.Pod) bool {
		return kit.HasPhase(corev1.PodRunning)(p) && p.UID != before.UID && len(p.Status.ContainerStatuses) == 1 &&
			p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID
	})
	kit.Must(t, os.Remove(manifest))
	pods.Await("rewritten-two", "gone", kit.IsGone)
}
