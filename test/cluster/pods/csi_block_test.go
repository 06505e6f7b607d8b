//go:build real

package pods

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/cluster/kit"
	"berth/test/fixture"
	"berth/test/lab/control"
)

func TestADeviceOfADriver(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager, control.Scheduler)
	admin := kit.Client(t, plane, control.Admin())
	device, _ := fixture.LoopDevice(t, "hello from a device")
	n := kit.JoinNode(t, plane, "one")
	driver := startDriver(t, n, diskDriver)
	describeDriver(t, admin, diskDriver, storagev1.CSIDriverSpec{})
	raw := claimed(t, admin, "default", "raw", func(pv *corev1.PersistentVolume) {
		pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		pv.Spec.CSI.VolumeAttributes = map[string]string{"device": device}
	})
	pods := kit.PodsIn(t, admin, "default")
	published := filepath.Join(n.Root, "plugins/kubernetes.io/csi/volumeDevices/publish/raw")

	// The second time, what is written down of it can't be read.
	asked := 0
	for _, spoiled := range []bool{false, true} {
		// A container reads the device, and another one lives on.
		p := kit.WithoutRestart(kit.WorkloadPod("web", "quote", "/dev/disk"))
		p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: raw}}
		p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/dev/disk"}}
		stay := kit.WorkloadPod("stay", "sleep").Spec.Containers[0]
		stay.Name = "stay"
		p.Spec.Containers = append(p.Spec.Containers, stay)
		pods.MustCreate(p)
		got := pods.Await("web", "read", func(p *corev1.Pod) bool {
			return p != nil && slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
				return s.State.Terminated != nil && strings.HasPrefix(s.State.Terminated.Message, "hello from a device")
			})
		})
		if all, err := os.ReadDir(published); err != nil || len(all) != 1 {
			t.Error(all, err)
		}

		// The agent is killed, and the pod deleted meanwhile: the driver takes the device away.
		n.Kill()
		if spoiled {
			record := filepath.Join(n.Root, "pods", string(got.UID), "volumes/kubernetes.io~csi/raw/vol_data.json")
			kit.Must(t, os.Truncate(record, 7))
		}
		kit.Must(t, pods.Delete(t.Context(), "web", metav1.DeleteOptions{}))
		kit.Must(t, n.Start())
		pods.Await("web", "gone", kit.IsGone)
		want := []string{"stage raw", "publish raw for ", "unpublish raw", "unstage raw"}
		if got := driver.calls()[asked:]; !slices.Equal(got, want) {
			t.Errorf("the driver was asked for %q, want %q", got, want)
		}
		asked += len(want)
		if _, err := os.Stat(published); !os.IsNotExist(err) {
			t.Error("what was published is left:", err)
		}
	}
}
