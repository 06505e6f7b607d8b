//go:build real

package pods

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

// growing is the storage class of volumes whose claims may ask for more.
const growing = "growing"

func makeGrowing(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	_, err := admin.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: growing}, Provisioner: diskDriver, AllowVolumeExpansion: new(true),
	}, kit.CreateOptions)
	kit.Must(t, err)
}

func isGrowing(pv *corev1.PersistentVolume) { pv.Spec.StorageClassName = growing }

// resize asks for another size of a claim, and does the work of a resizer: the volume has the size, and the rest is left to the node.
func resize(t *testing.T, admin kubernetes.Interface, name, size string) {
	t.Helper()
	// A size that the claim does not ask for is given up by the node when it fails for the second time.
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	_, err := admin.CoreV1().PersistentVolumeClaims("default").Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	kit.Must(t, err)
	patch = fmt.Appendf(nil, `{"spec":{"capacity":{"storage":%q}}}`, size)
	_, err = admin.CoreV1().PersistentVolumes().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	kit.Must(t, err)
	patch = fmt.Appendf(nil, `{"status":{"allocatedResources":{"storage":%q},"allocatedResourceStatuses":{"storage":"NodeResizePending"},`+
		`"conditions":[{"type":"FileSystemResizePending","status":"True"}]}}`, size)
	_, err = admin.CoreV1().PersistentVolumeClaims("default").Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	kit.Must(t, err)
}

// awaitClaim returns once the status of a claim has a size, a state of its resize and conditions.
func awaitClaim(t *testing.T, admin kubernetes.Interface, name, size string, status corev1.ClaimResourceStatus, conditions ...string) {
	t.Helper()
	kit.Within(t, 2*kit.WaitTimeout, func() error {
		c, err := admin.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), name, kit.GetOptions)
		if err != nil {
			return err
		}
		var have []string
		for _, is := range c.Status.Conditions {
			have = append(have, string(is.Type))
		}
		if want := resource.MustParse(size); c.Status.Capacity.Storage().Cmp(want) != 0 || c.Status.AllocatedResourceStatuses["storage"] != status || !slices.Equal(have, conditions) {
			return fmt.Errorf("claim %s is %+v", name, c.Status)
		}
		return nil
	})
}

// awaitEvent returns once an object has an event with a reason.
func awaitEvent(t *testing.T, admin kubernetes.Interface, kind, name, reason string) {
	t.Helper()
	kit.Within(t, kit.WaitTimeout, func() error {
		list, err := admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && e.Reason == reason
		}) {
			return fmt.Errorf("%s %s has no event %s", kind, name, reason)
		}
		return nil
	})
}

// expansions are the calls of NodeExpandVolume that the driver got for a volume, in Gi.
func (d *csiDriver) expansions(name string) (out []string) {
	d.t.Helper()
	for _, call := range d.calls() {
		if bytes, ok := strings.CutPrefix(call, "expand "+name+" to "); ok {
			n, err := strconv.ParseInt(bytes, 10, 64)
			kit.Must(d.t, err)
			out = append(out, strconv.FormatInt(n>>30, 10))
		}
	}
	return out
}

func TestDisksGrow(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager, control.Scheduler)
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")
	driver := startDriver(t, n, diskDriver, "-expand")
	describeDriver(t, admin, diskDriver, storagev1.CSIDriverSpec{})
	makeGrowing(t, admin)
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.WithVolume(kit.WorkloadPod("a", "sleep"), claimed(t, admin, "default", "online", isGrowing)),
		kit.WithVolume(kit.WorkloadPod("b", "sleep"), claimed(t, admin, "default", "refused", isGrowing)))
	for _, name := range []string{"a", "b"} {
		pods.Await(name, "ready", kit.IsReady)
	}
	before := kit.InstanceOf(pods.Await("a", "there", kit.IsReady))

	// A disk grows while its pod runs; the agent finds out by itself.
	kit.Must(t, os.WriteFile(driver.in("expand-refused"), []byte(strconv.Itoa(int(codes.OutOfRange))), 0o600))
	resize(t, admin, "online", "2Gi")
	resize(t, admin, "refused", "3Gi")
	awaitClaim(t, admin, "online", "2Gi", "")
	awaitEvent(t, admin, "Pod", "a", "FileSystemResizeSuccessful")
	awaitEvent(t, admin, "PersistentVolumeClaim", "online", "FileSystemResizeSuccessful")

	// A size that the driver refuses is given up, and the resizer chooses another one.
	awaitClaim(t, admin, "refused", "1Gi", corev1.PersistentVolumeClaimNodeResizeInfeasible, "FileSystemResizePending", "NodeResizeError")
	awaitEvent(t, admin, "Pod", "b", "VolumeResizeFailed")
	kit.Must(t, os.Remove(driver.in("expand-refused")))
	resize(t, admin, "refused", "2Gi")

	// After a restart of the agent, too.
	n.Kill()
	kit.Must(t, n.Start())
	awaitClaim(t, admin, "refused", "2Gi", "")
	if got := driver.expansions("refused"); !slices.Equal(got, []string{"3", "2"}) {
		t.Errorf("the refused disk was expanded to %q", got)
	}
	if got := driver.expansions("online"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("the disk was expanded to %q", got)
	}
	kit.MustKeepInstance(t, pods.Await("a", "ready", kit.IsReady), before)

	// A disk that grew while no pod had it is expanded before its next pod starts.
	pods.MustRemove("a")
	resize(t, admin, "online", "4Gi")
	kit.Must(t, os.WriteFile(driver.in("expand-online"), []byte(strconv.Itoa(int(codes.Internal))), 0o600))
	again := kit.WithVolume(kit.WorkloadPod("c", "sleep"), corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "online"}})
	pods.MustCreate(again)
	awaitClaim(t, admin, "online", "2Gi", corev1.PersistentVolumeClaimNodeResizeInProgress, "FileSystemResizePending", "NodeResizeError")
	awaitEvent(t, admin, "Pod", "c", "FailedMount")
	kit.Within(t, kit.WaitTimeout, func() error {
		if got := driver.expansions("online"); len(got) < 4 {
			return fmt.Errorf("the disk was expanded to %q: its first two failures are not enough, since the second one may be final", got)
		}
		return nil
	})
	kit.Must(t, os.Remove(driver.in("expand-online")))
	pods.Await("c", "ready", kit.IsReady)
	awaitClaim(t, admin, "online", "4Gi", "")
	pods.MustRemove("b", "c")
}
