//go:build real

package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/fixture"
	"berth/test/real/kit"
)

func TestADeviceOfTheMachine(t *testing.T) {
	t.Parallel()
	// given a device that is a volume of the folder, behind a link as udev makes them
	n := kit.NewNode(t)
	device, file := fixture.LoopDevice(t, "hello from a device")
	link := filepath.Join(n.Dir, "by-name")
	if err := os.Symlink(device, link); err != nil {
		t.Fatal(err)
	}
	size, once := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Mi")}, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv := &v1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: "raw"},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once, VolumeMode: new(v1.PersistentVolumeBlock),
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: link}},
		},
	}
	claim := &v1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: once, VolumeMode: new(v1.PersistentVolumeBlock), Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}
	pod := func(name string, readOnly bool, args ...string) *v1.Pod {
		p := kit.NewPod(name, args...)
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.Volumes = []v1.Volume{{Name: "disk", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: readOnly},
		}}}
		p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/disk"}}
		return p
	}
	ended := func(name string) (end v1.ContainerStateTerminated) {
		t.Helper()
		n.WaitPod(name, "has ended", kit.StartTimeout, func(p v1.Pod) string {
			if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Terminated == nil {
				return "it has not"
			}
			end = *p.Status.ContainerStatuses[0].State.Terminated
			return ""
		})
		return end
	}

	// when pods may only read it, then they can do that and nothing else
	n.ApplyObjects("disk.yaml", pv, claim)
	n.ApplyObjects("read.yaml", pod("reader", true, "quote", "/dev/disk"), pod("vandal", true, "write", "/dev/disk", "no"))
	n.Start()
	if end := ended("reader"); !strings.HasPrefix(end.Message, "hello from a device") {
		t.Errorf("it read: %+v", end)
	}
	if end := ended("vandal"); end.ExitCode == 0 {
		t.Errorf("it wrote: %+v", end)
	}

	// when one may write, then it is on the device
	n.ApplyObjects("write.yaml", pod("writer", false, "write", "/dev/disk", "HELLO"))
	if end := ended("writer"); end.ExitCode != 0 {
		t.Errorf("it could not write: %+v", end)
	}
	n.Wait("the text on the device", kit.StartTimeout, func() string {
		text, err := os.ReadFile(file)
		return kit.MissingUnless(err == nil && strings.HasPrefix(string(text), "HELLO from a device"))
	})
}
