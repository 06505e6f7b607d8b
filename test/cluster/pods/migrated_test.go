//go:build real

package pods

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

// Disks of a kind that a CSI driver has taken over are attached and mounted as disks of that driver, in
// agreement with the controller that attaches them.
func TestDisksThatADriverHasTakenOver(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager)
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")
	const ebs = "ebs.csi.aws.com"
	driver := startDriver(t, n, ebs)
	describeDriver(t, admin, ebs, storagev1.CSIDriverSpec{AttachRequired: new(true)})
	kit.Within(t, kit.WaitTimeout, func() error {
		o, err := admin.StorageV1().CSINodes().Get(t.Context(), "one", kit.GetOptions)
		if err == nil && !strings.Contains(o.Annotations[corev1.MigratedPluginsAnnotationKey], "kubernetes.io/aws-ebs") {
			err = fmt.Errorf("the CSINode has %v", o.Annotations)
		}
		return err
	})

	// given a disk that is claimed, and one that a pod names
	owned := claimed(t, admin, "default", "old", func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1", FSType: "ext4"}}
	})
	named := corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://eu-1a/vol-2"}}
	pods := podsOfDrivers(t, admin, "default")
	pods.MustCreate(kit.OnNode(kit.WithVolume(kit.WorkloadPod("a", "sleep"), owned), "one"), kit.OnNode(kit.WithVolume(kit.WorkloadPod("b", "sleep"), named), "one"))

	// when the driver has attached them, then it mounts them
	attach(t, admin, 2)
	pods.Await("a", "ready", kit.IsReady)
	pods.Await("b", "ready", kit.IsReady)
	calls := strings.Join(driver.calls(), "\n")
	for _, disk := range []string{"vol-1", "vol-2"} {
		if !slices.ContainsFunc(strings.Split(calls, "\n"), func(call string) bool { return strings.HasPrefix(call, "publish "+disk+" ") }) {
			t.Errorf("%s was not mounted:\n%s", disk, calls)
		}
	}
	metrics := kit.Kubectl(t, plane, "get", "--raw", "/api/v1/nodes/one/proxy/metrics")
	kit.MustMatch(t, "the metrics", metrics, `csi_operations_seconds_count\{driver_name="ebs.csi.aws.com",grpc_status_code="OK",method_name="/csi.v1.Node/NodePublishVolume",migrated="true"\} 2`)
}

func TestAKindOfVolumeThatIsNotSupported(t *testing.T) {
	t.Parallel()
	_, admin := kit.SharedNamespace(t, "refused")
	pods := kit.PodsIn(t, admin, "refused")
	pods.MustCreate(kit.OnNode(kit.WithVolume(kit.WorkloadPod("a", "sleep"), corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{
		TargetPortal: "10.99.0.99:3260", IQN: "iqn.2030-01.example:disk",
	}}), "one"))
	const says = "iscsi is not supported: use a PersistentVolume of the CSI driver iscsi.csi.k8s.io"
	pods.Await("a", "waiting", waitsFor(says))
	kit.Within(t, kit.WaitTimeout, func() error {
		events, err := admin.CoreV1().Events("refused").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=a,reason=FailedMount"})
		if err == nil && (len(events.Items) == 0 || !strings.Contains(events.Items[0].Message, says)) {
			err = fmt.Errorf("the events are %v", events.Items)
		}
		return err
	})
}
