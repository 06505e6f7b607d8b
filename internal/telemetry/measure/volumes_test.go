package measure

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"berth/internal/lib/pod"
	"berth/internal/telemetry/metrics"
	"berth/internal/telemetry/waterfall"
)

func TestVolumesAreCountedByKind(t *testing.T) {
	// Given a pod with one volume that is set up, one that is not, and one that no container mounts
	secret := v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}
	p := &v1.Pod{}
	p.UID = "a"
	p.Spec.Volumes = []v1.Volume{
		{Name: "there", VolumeSource: secret},
		{Name: "missing", VolumeSource: secret},
		{Name: "unused", VolumeSource: secret},
		{Name: "disk", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}},
		{Name: "image", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{}}},
	}
	p.Spec.InitContainers = []v1.Container{{VolumeMounts: []v1.VolumeMount{{Name: "there"}, {Name: "image"}}}}
	p.Spec.Containers = []v1.Container{{VolumeMounts: []v1.VolumeMount{{Name: "missing"}}, VolumeDevices: []v1.VolumeDevice{{Name: "disk"}}}}

	got := Volumes([]*v1.Pod{p}, func(uid pod.UID, name string) (string, bool) { return "/x", uid == "a" && name != "missing" })

	want := map[metrics.Volumes]int{
		{Plugin: "kubernetes.io/secret"}: 2, {Plugin: "kubernetes.io/secret", SetUp: true}: 1,
		{Plugin: "kubernetes.io/persistent-claim"}: 1, {Plugin: "kubernetes.io/persistent-claim", SetUp: true}: 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAVolumeThatIsSetUpIsMeasured(t *testing.T) {
	w, page := watcher(t)
	p := &v1.Pod{}
	p.Annotations = map[string]string{pod.AnnotationSeen: time.Now().Add(-time.Minute).Format(time.RFC3339Nano)}
	v := &v1.Volume{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
	w.VolumeSetUp(p, v, time.Second, errors.New("no room"))
	w.VolumeSetUp(p, v, time.Second, nil)

	lines(t, page(), `volume_operation_total_seconds_bucket{operation_name="overall_volume_mount",plugin_name="kubernetes.io/empty-dir",le="50"} 0`,
		`volume_operation_total_seconds_count{operation_name="overall_volume_mount",plugin_name="kubernetes.io/empty-dir"} 1`, `storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="fail-unknown",volume_plugin="kubernetes.io/empty-dir"} 1`)
}

func TestImageVolumesAreCounted(t *testing.T) {
	w, page := watcher(t)
	p := &v1.Pod{}
	p.UID = "1"
	image := v1.VolumeSource{Image: &v1.ImageVolumeSource{}}
	p.Spec.Volumes = []v1.Volume{{Name: "model", VolumeSource: image}, {Name: "other", VolumeSource: image}, {Name: "dir"}}
	p.Spec.Containers = []v1.Container{{Name: "app", VolumeMounts: []v1.VolumeMount{{Name: "model"}, {Name: "dir"}}}}

	for _, err := range []error{nil, errors.New("no room"), fmt.Errorf("make it: %w", crierrors.ErrImageVolumeMountFailed)} {
		w.Phase(p, waterfall.Create, "app")(err)
	}

	lines(t, page(), "kubelet_image_volume_requested_total 6", "kubelet_image_volume_mounted_succeed_total 1", "kubelet_image_volume_mounted_errors_total 1")
}
