//go:build real

package pods

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

func TestANodeWithAHungMountStaysReady(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager)
	admin := kit.Client(t, plane, control.Admin())
	kit.JoinNode(t, plane, "one")
	kit.Must(t, plane.AwaitNodes(t.Context()))
	pods := kit.PodsIn(t, admin, "default")
	seen := kit.WatchReady(t, admin, "one")

	// Given pods that mount what never answers, more than there are slots.
	dir, _, wake := kit.HungMount(t)
	above := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Dir(dir)}}
	hung := []string{"hung-0", "hung-1", "part-0", "part-1"}
	for _, name := range hung {
		p := kit.WithVolume(kit.OnNode(kit.WorkloadPod(name, "sleep"), "one"), corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir + "/x"}})
		if strings.HasPrefix(name, "part") {
			p.Spec.Volumes[0].VolumeSource = above
			p.Spec.Containers[0].VolumeMounts[0].SubPath = filepath.Base(dir) + "/x"
		}
		pods.MustCreate(p)
	}
	waits := func(says string) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			return p != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
				strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Message, says)
		}
	}
	for _, name := range hung {
		pods.Await(name, "waiting", waits(""))
	}

	// Then others start meanwhile, and those say what they wait for, and since when.
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("early", "sleep"), "one"))
	pods.AwaitWithin(kit.ShortTimeout, "early", "ready", kit.IsReady)
	for _, name := range hung {
		pods.Await(name, "telling why", waits("look at "+dir+"/x: not done since 20"))
	}
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("late", "sleep"), "one"))
	pods.AwaitWithin(kit.ShortTimeout, "late", "ready", kit.IsReady)

	// And the node was ready at all times.
	if all := seen.Unready(); len(all) > 0 {
		t.Errorf("the node was not ready: %q", all)
	}
	wake()
	pods.MustRemove(append(hung, "early", "late")...)
}
