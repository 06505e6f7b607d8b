//go:build real

package runtime

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/ociarchive"
	"berth/test/real/kit"
)

func TestMissingImage(t *testing.T) {
	t.Parallel()
	// given pods whose images are not there
	n := kit.NewNode(t)
	oci, docker := kit.NewPod("oci", "sleep"), kit.NewPod("docker", "sleep")
	oci.Spec.Containers[0].Image = "localhost/late-oci:1"
	docker.Spec.Containers[0].Image = "localhost/late-docker:1"
	n.Apply("pods.yaml", oci, docker)
	n.Start()

	// then they say so
	for _, name := range []string{"oci", "docker"} {
		seen := map[string]bool{}
		n.WaitPod(name, "waits for its image", kit.StartTimeout, func(p v1.Pod) string {
			if w := kit.AppStatus(p).State.Waiting; w != nil && strings.Contains(w.Message, "localhost/late-"+name+":1") {
				seen[w.Reason] = true
			}
			return kit.MissingUnless(seen[pod.ReasonImagePullBackOff] || seen[pod.ReasonErrImagePull])
		})
	}
	n.WaitPod("oci", "waits before the next try", kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(p.Status.Phase == v1.PodPending && w != nil && w.Reason == pod.ReasonImagePullBackOff &&
			strings.Contains(w.Message, "localhost/late-oci:1"))
	})

	// when archives of them appear, then the pods start by themselves
	n.AddImage("late-oci.tar", kit.WorkloadArchive(t, "localhost/late-oci:1", ociarchive.Write))
	n.WaitRunning("oci")
	n.AddImage("late-docker.tar", kit.WorkloadArchive(t, "localhost/late-docker:1", ociarchive.WriteDocker))
	n.WaitRunning("docker")
}
