//go:build real

package real

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/ociarchive"
)

func TestMissingImage(t *testing.T) {
	t.Parallel()
	// given pods whose images are not there
	n := newNode(t)
	oci, docker := newPod("oci", "sleep"), newPod("docker", "sleep")
	oci.Spec.Containers[0].Image = "localhost/late-oci:1"
	docker.Spec.Containers[0].Image = "localhost/late-docker:1"
	n.apply("pods.yaml", oci, docker)
	n.start()

	// then they say so
	for _, name := range []string{"oci", "docker"} {
		seen := map[string]bool{}
		n.waitPod(name, "waits for its image", startLimit, func(p v1.Pod) string {
			if w := app(p).State.Waiting; w != nil && strings.Contains(w.Message, "localhost/late-"+name+":1") {
				seen[w.Reason] = true
			}
			return boolText(seen[pod.ReasonImagePullBackOff] || seen[pod.ReasonErrImagePull])
		})
	}
	n.waitPod("oci", "waits before the next try", startLimit, func(p v1.Pod) string {
		w := app(p).State.Waiting
		return boolText(p.Status.Phase == v1.PodPending && w != nil && w.Reason == pod.ReasonImagePullBackOff &&
			strings.Contains(w.Message, "localhost/late-oci:1"))
	})

	// when archives of them appear, then the pods start by themselves
	n.drop("late-oci.tar", archive(t, "localhost/late-oci:1", ociarchive.Write))
	n.waitRunning("oci")
	n.drop("late-docker.tar", archive(t, "localhost/late-docker:1", ociarchive.WriteDocker))
	n.waitRunning("docker")
}
