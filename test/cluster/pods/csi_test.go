//go:build real

package pods

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/fixture"
	"berth/test/lab"
	"berth/test/lab/control"
)

const diskDriver = "disks.example.com"

// csiDriver is the CSI driver of the tests on a node.
type csiDriver struct {
	t   *testing.T
	dir string
}

func startDriver(t *testing.T, n *lab.Node, name string, flags ...string) *csiDriver {
	t.Helper()
	program, err := fixture.Build("csidriver")
	kit.Must(t, err)
	d := &csiDriver{t, t.TempDir()}
	kit.Must(t, fixture.WriteProgram(d.in("program"), program))
	cmd := exec.Command(d.in("program"), append([]string{"-name", name, "-dir", d.dir, "-registry", filepath.Join(n.Root, "plugins_registry")}, flags...)...)
	cmd.Stderr = os.Stderr
	kit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return d
}

// in is a place in its directory.
func (d *csiDriver) in(parts ...string) string {
	return filepath.Join(append([]string{d.dir}, parts...)...)
}

// calls returns the CSI calls that the driver got, without those of its registration.
func (d *csiDriver) calls() []string {
	d.t.Helper()
	text, err := os.ReadFile(d.in("calls.log"))
	kit.Must(d.t, err)
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return slices.DeleteFunc(all, func(line string) bool { return line == "" || strings.HasPrefix(line, "registered") })
}

// describeDriver makes the CSIDriver object of a driver. Its volumes need no attachment, unless s says
// so.
func describeDriver(t *testing.T, admin kubernetes.Interface, name string, s storagev1.CSIDriverSpec) {
	t.Helper()
	if s.AttachRequired == nil {
		s.AttachRequired = new(false)
	}
	_, err := admin.StorageV1().CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: s}, kit.CreateOptions)
	kit.Must(t, err)
}

// disk is a persistent volume of that driver, and the spec of a claim for it.
func disk(t *testing.T, admin kubernetes.Interface, name string, edits ...func(*corev1.PersistentVolume)) corev1.PersistentVolumeClaimSpec {
	t.Helper()
	size := corev1.ResourceList{"storage": resource.MustParse("1Gi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: diskDriver, VolumeHandle: name}},
		},
	}
	for _, edit := range edits {
		edit(pv)
	}
	_, err := admin.CoreV1().PersistentVolumes().Create(t.Context(), pv, kit.CreateOptions)
	kit.Must(t, err)
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: pv.Spec.AccessModes, VolumeMode: pv.Spec.VolumeMode, VolumeName: name, StorageClassName: &pv.Spec.StorageClassName, Resources: corev1.VolumeResourceRequirements{Requests: size},
	}
}

// claimed makes such a volume, and a claim of the same name, and returns the volume of a
// pod that has it.
func claimed(t *testing.T, admin kubernetes.Interface, namespace, name string, edits ...func(*corev1.PersistentVolume)) corev1.VolumeSource {
	t.Helper()
	_, err := admin.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: disk(t, admin, name, edits...),
	}, kit.CreateOptions)
	kit.Must(t, err)
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func TestDisksOfADriver(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager, control.Scheduler)
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")
	driver := startDriver(t, n, diskDriver, "-max", "7")
	describeDriver(t, admin, diskDriver, storagev1.CSIDriverSpec{AttachRequired: new(true), PodInfoOnMount: new(true)})

	// The cluster knows the driver.
	kit.Within(t, kit.WaitTimeout, func() error {
		o, err := admin.StorageV1().CSINodes().Get(t.Context(), "one", kit.GetOptions)
		if err == nil && (len(o.Spec.Drivers) != 1 || o.Spec.Drivers[0].NodeID != "this-node" || *o.Spec.Drivers[0].Allocatable.Count != 7) {
			err = fmt.Errorf("the CSINode has %+v", o.Spec)
		}
		return err
	})
	kit.Within(t, kit.WaitTimeout, func() error {
		o, err := admin.CoreV1().Nodes().Get(t.Context(), "one", kit.GetOptions)
		if err == nil && o.Annotations["csi.volume.kubernetes.io/nodeid"] != `{"disks.example.com":"this-node"}` {
			err = fmt.Errorf("the Node has %v", o.Annotations)
		}
		return err
	})

	// Two pods share a disk, and one has a disk of its own that was claimed for it.
	shared := claimed(t, admin, "default", "shared")
	own := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: disk(t, admin, "own")}}}
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.WithVolume(kit.WorkloadPod("a", "sleep"), shared), kit.WithVolume(kit.WorkloadPod("b", "sleep"), shared), kit.WithVolume(kit.WorkloadPod("c", "sleep"), own))

	// They wait until the disk is attached, and say so.
	pods.Await("a", "waiting", func(p *corev1.Pod) bool {
		if p == nil || len(p.Status.ContainerStatuses) == 0 {
			return false
		}
		w := p.Status.ContainerStatuses[0].State.Waiting
		return w != nil && strings.Contains(w.Message, "waiting for the volume to be attached to this node")
	})
	attach(t, admin, 2)
	for _, name := range []string{"a", "b", "c"} {
		pods.Await(name, "ready", kit.IsReady)
	}
	got := driver.calls()
	slices.Sort(got)
	want := []string{"publish own for c", "publish shared for a", "publish shared for b", "stage own", "stage shared"}
	if !slices.Equal(got, want) {
		t.Errorf("the driver was asked for %q", got)
	}

	// The agent is killed, and a pod deleted meanwhile: the other keeps the disk.
	n.Kill()
	kit.Must(t, pods.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	kit.Must(t, n.Start())
	pods.Await("a", "gone", kit.IsGone)
	if slices.Contains(driver.calls(), "unstage shared") {
		t.Error("a disk that is in use was unstaged")
	}
	pods.MustRemove("b", "c")
	last := driver.calls()[len(want):]
	slices.Sort(last)
	if !slices.Equal(last, []string{"unpublish own", "unpublish shared", "unpublish shared", "unstage own", "unstage shared"}) {
		t.Errorf("the driver was asked for %q", last)
	}
}

// attach does the work of an attacher: it sets the status of VolumeAttachments to attached.
func attach(t *testing.T, admin kubernetes.Interface, count int) {
	t.Helper()
	kit.Within(t, kit.WaitTimeout, func() error {
		list, err := admin.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			a := &list.Items[i]
			a.Status.Attached = true
			_, e := admin.StorageV1().VolumeAttachments().UpdateStatus(t.Context(), a, metav1.UpdateOptions{})
			err = errors.Join(err, e)
		}
		if err == nil && len(list.Items) < count {
			err = fmt.Errorf("%d volumes are to be attached", len(list.Items))
		}
		return err
	})
}
