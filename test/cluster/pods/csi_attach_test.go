//go:build real

package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

// awaitAttachments returns once just these volumes have an attachment.
func awaitAttachments(t *testing.T, admin kubernetes.Interface, want ...string) {
	t.Helper()
	kit.Within(t, kit.WaitTimeout, func() error {
		list, err := admin.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for i := range list.Items {
			got = append(got, *list.Items[i].Spec.Source.PersistentVolumeName)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("attached are %q, want %q", got, want)
		}
		return nil
	})
}

// awaitInUse returns once the node shows just these volumes as in use.
func awaitInUse(t *testing.T, admin kubernetes.Interface, node string, want ...string) {
	t.Helper()
	kit.Within(t, kit.WaitTimeout, func() error {
		o, err := admin.CoreV1().Nodes().Get(t.Context(), node, kit.GetOptions)
		if err != nil {
			return err
		}
		var got []string
		for _, v := range o.Status.VolumesInUse {
			got = append(got, strings.TrimPrefix(string(v), "kubernetes.io/csi/"+diskDriver+"^"))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("in use are %q, want %q", got, want)
		}
		return nil
	})
}

func TestADriverThatKnewTheNodeByAnotherName(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")
	nodes := admin.StorageV1().CSINodes()
	kit.Within(t, kit.WaitTimeout, func() error {
		o, err := nodes.Get(t.Context(), "one", kit.GetOptions)
		if err != nil {
			return err
		}
		o.Spec.Drivers = []storagev1.CSINodeDriver{{Name: diskDriver, NodeID: "an-earlier-name", TopologyKeys: []string{"example.com/rack"}}}
		_, err = nodes.Update(t.Context(), o, metav1.UpdateOptions{})
		return err
	})
	startDriver(t, n, diskDriver)
	kit.Within(t, kit.WaitTimeout, func() error {
		o, err := nodes.Get(t.Context(), "one", kit.GetOptions)
		if err == nil && (len(o.Spec.Drivers) != 1 || o.Spec.Drivers[0].NodeID != "this-node" || len(o.Spec.Drivers[0].TopologyKeys) > 0) {
			err = fmt.Errorf("the CSINode has %+v", o.Spec.Drivers)
		}
		return err
	})
}

func TestADiskIsNotDetachedWhileItIsMounted(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager, control.Scheduler)
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")
	driver := startDriver(t, n, diskDriver)
	describeDriver(t, admin, diskDriver, storagev1.CSIDriverSpec{AttachRequired: new(true)})
	pods := kit.PodsIn(t, admin, "default")

	// Given a pod with a disk. It is in use as soon as it is wanted.
	pods.MustCreate(kit.WithVolume(kit.WorkloadPod("a", "sleep"), claimed(t, admin, "default", "held")))
	awaitInUse(t, admin, "one", "held")
	attach(t, admin, 1)
	pods.Await("a", "ready", kit.IsReady)
	awaitInUse(t, admin, "one", "held")

	// And, while there is no agent, another pod, whose disk is never mounted.
	n.Kill()
	pods.MustCreate(kit.OnNode(kit.WithVolume(kit.WorkloadPod("b", "sleep"), claimed(t, admin, "default", "idle")), "one"))
	attach(t, admin, 2)
	awaitAttachments(t, admin, "held", "idle")

	// When both are taken away by force, then only the disk goes that is not mounted.
	for _, name := range []string{"a", "b"} {
		kit.Must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	}
	awaitAttachments(t, admin, "held")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	kit.Must(t, err)
	if !strings.Contains(string(mounts), filepath.Join(n.Root, "plugins", "kubernetes.io", "csi", diskDriver)) {
		t.Error("it is not mounted any more")
	}

	// The next agent unmounts it, and then it goes.
	kit.Must(t, n.Start())
	awaitAttachments(t, admin)
	if got := driver.calls(); got[len(got)-1] != "unstage held" {
		t.Errorf("it went before it was unstaged: %q", got)
	}
	awaitInUse(t, admin, "one")
}

// awaitLimit returns once the CSINode has a limit for the driver.
func awaitLimit(t *testing.T, admin kubernetes.Interface, node string, want int32) {
	t.Helper()
	kit.Within(t, kit.WaitTimeout, func() error {
		o, err := admin.StorageV1().CSINodes().Get(t.Context(), node, kit.GetOptions)
		if err == nil && (len(o.Spec.Drivers) != 1 || o.Spec.Drivers[0].Allocatable == nil || *o.Spec.Drivers[0].Allocatable.Count != want) {
			err = fmt.Errorf("the CSINode has %+v, want a limit of %d", o.Spec, want)
		}
		return err
	})
}

func TestTheLimitOfADriverChanges(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager)
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")
	describeDriver(t, admin, diskDriver, storagev1.CSIDriverSpec{AttachRequired: new(true), NodeAllocatableUpdatePeriodSeconds: new(int64(10))})
	driver := startDriver(t, n, diskDriver, "-max", "7")
	awaitLimit(t, admin, "one", 7)
	kit.Must(t, os.WriteFile(driver.in("max"), []byte("5"), 0o600))
	awaitLimit(t, admin, "one", 5)

	// With a long period, the driver is asked again when a volume does not fit any more.
	o, err := admin.StorageV1().CSIDrivers().Get(t.Context(), diskDriver, kit.GetOptions)
	kit.Must(t, err)
	o.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64(3600))
	_, err = admin.StorageV1().CSIDrivers().Update(t.Context(), o, metav1.UpdateOptions{})
	kit.Must(t, err)
	kit.Must(t, os.WriteFile(driver.in("max"), []byte("4"), 0o600))
	awaitLimit(t, admin, "one", 4) // the end of the last short period
	kit.Must(t, os.WriteFile(driver.in("max"), []byte("3"), 0o600))
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.OnNode(kit.WithVolume(kit.WorkloadPod("a", "sleep"), claimed(t, admin, "default", "one-too-many")), "one"))
	kit.Within(t, kit.WaitTimeout, func() error {
		list, err := admin.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return fmt.Errorf("no volume is to be attached: %w", err)
		}
		a := &list.Items[0]
		a.Status.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: "no slot is free", ErrorCode: new(int32(codes.ResourceExhausted))}
		_, err = admin.StorageV1().VolumeAttachments().UpdateStatus(t.Context(), a, metav1.UpdateOptions{})
		return err
	})
	awaitLimit(t, admin, "one", 3)

	// The pod waits for a while, and then makes room for one on another node.
	pods.AwaitWithin(5*time.Minute, "a", "failed", func(p *corev1.Pod) bool {
		return p != nil && p.Status.Phase == corev1.PodFailed && p.Status.Reason == "VolumeAttachmentLimitExceeded"
	})
	pods.MustRemove("a")
}
