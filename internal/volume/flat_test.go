package volume

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// The mounts of a machine with 500 pods are thousands, and to list them takes the kernel
// and us milliseconds. No pod may need that for its own volumes.
func TestVolumesComeAndGoWithoutTheMountTable(t *testing.T) {
	w := newWorld(t)
	w.objects.secrets["s"] = &v1.Secret{Data: map[string][]byte{"a": []byte("1")}}
	for i := range 20 {
		p := podWith(secretVolume("s"))
		p.UID = pod.UID(fmt.Sprint("u-", i))
		for name, source := range map[string]v1.VolumeSource{"scratch": emptyDir("", ""), "memory": emptyDir(v1.StorageMediumMemory, "")} {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name, SubPath: "x"})
		}
		w.setup(p)
		if _, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			continue
		}
		before := len(w.mounter.mounts)
		for range 2 { // when the pod stops, and when it is erased
			if err := w.m.Teardown(t.Context(), p.UID); err != nil {
				t.Fatal(err)
			}
		}
		if got := before - len(w.mounter.mounts); got != 4 {
			t.Fatalf("%d mounts were taken away, want 4", got)
		}
	}
	if w.mounter.tables != 0 {
		t.Errorf("all mounts of the machine were listed %d times", w.mounter.tables)
	}
}
