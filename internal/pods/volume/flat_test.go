package volume

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
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

// Who holds a persistent volume is looked up for each pod that wants one: in what was
// written down of the pods that hold it, and not of all.
func TestPersistentVolumesComeWithoutTheRecordsOfOthers(t *testing.T) {
	reads := func(pods int) int {
		w := newWorld(t)
		w.bind(localDisk(t.TempDir()))
		claim, pv := w.objects.claims["data"], w.objects.volumes["disk"]
		for i := range pods {
			name := fmt.Sprint("pv-", i)
			pv, claim := pv.DeepCopy(), claim.DeepCopy()
			claim.Name, claim.Spec.VolumeName, pv.Name, pv.Spec.ClaimRef.Name = name, name, name, name
			claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
			w.objects.claims[name], w.objects.volumes[name] = claim, pv
		}
		count := 0
		live := func(i int) {
			p := withGroup(podWith(claimVolume(fmt.Sprint("pv-", i))), someGroup())
			p.UID = pod.UID(fmt.Sprint("u-", i))
			w.setup(p)
			w.setup(p)
			if i%2 == 0 {
				if err := w.m.Teardown(t.Context(), p.UID); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range pods - 1 {
			live(i)
		}
		w.m.readRecord = func(podsDir string, uid pod.UID, volume string) (record, error) {
			count++
			return readRecord(podsDir, uid, volume)
		}
		live(pods - 1)
		if w.mounter.tables != 0 {
			t.Errorf("all mounts of the machine were listed %d times", w.mounter.tables)
		}
		return count
	}
	if among50, among500 := reads(51), reads(501); among50 != among500 || among50 == 0 {
		t.Errorf("a pod among 50 reads %d records, among 500 %d", among50, among500)
	}
}
