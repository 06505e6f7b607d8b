//go:build real

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"berth/test/lab/control"
)

// hungDir is a file system that never answers, until wake is called: then every answer
// is an error. What it is asked can be read from its device.
func hungDir(t *testing.T) (dir string, device int, wake func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hung-")
	must(t, err)
	device, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(t, err)
	wake = sync.OnceFunc(func() { _ = unix.Close(device) })
	t.Cleanup(func() {
		wake()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		os.Remove(dir)
	})
	must(t, unix.Mount("hung", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device)))
	return dir, device, wake
}

func TestANodeWithAHungMountStaysReady(t *testing.T) {
	t.Parallel()
	plane := newPlane(t, control.ControllerManager)
	admin := clientOf(t, plane, control.Admin())
	joinNode(t, plane, "one")
	must(t, plane.AwaitNodes(t.Context()))
	pods := podsIn(t, admin, "default")
	seen := watchReady(t, admin, "one")

	// Given pods that mount what never answers, more than there are slots.
	dir, _, wake := hungDir(t)
	above := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Dir(dir)}}
	hung := []string{"hung-0", "hung-1", "part-0", "part-1"}
	for _, name := range hung {
		p := withVolume(onNode(workloadPod(name, "sleep"), "one"), corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir + "/x"}})
		if strings.HasPrefix(name, "part") {
			p.Spec.Volumes[0].VolumeSource = above
			p.Spec.Containers[0].VolumeMounts[0].SubPath = filepath.Base(dir) + "/x"
		}
		pods.create(p)
	}
	waits := func(says string) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			return p != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
				strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Message, says)
		}
	}
	for _, name := range hung {
		pods.await(name, "waiting", waits(""))
	}

	// Then others start meanwhile, and those say what they wait for, and since when.
	pods.create(onNode(workloadPod("early", "sleep"), "one"))
	pods.awaitWithin(soon, "early", "ready", isReady)
	for _, name := range hung {
		pods.await(name, "telling why", waits("look at "+dir+"/x: not done since 20"))
	}
	pods.create(onNode(workloadPod("late", "sleep"), "one"))
	pods.awaitWithin(soon, "late", "ready", isReady)

	// And the node was ready at all times.
	if all := seen.unready(); len(all) > 0 {
		t.Errorf("the node was not ready: %q", all)
	}
	wake()
	pods.remove(append(hung, "early", "late")...)
}
