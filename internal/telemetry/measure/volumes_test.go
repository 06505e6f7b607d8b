package measure

import (
	"errors"
	"maps"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/telemetry/metrics"
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
	w.VolumeSetUp(&v1.Volume{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, time.Second, errors.New("no room"))

	lines(t, page(), `storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="fail-unknown",volume_plugin="kubernetes.io/empty-dir"} 1`)
}
