package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func claimVolume(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// bind puts a claim and a volume that belong to one another into the world.
func (w *world) bind(source v1.PersistentVolumeSource) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "shop", UID: "c-1"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "disk"},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: source,
			ClaimRef:               &v1.ObjectReference{Namespace: "shop", Name: "data", UID: "c-1"},
		},
	}
	w.objects.claims["data"], w.objects.volumes["disk"] = claim, pv
	return claim, pv
}

func onHost(path string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}}
}

func TestAClaimOfAHostPath(t *testing.T) {
	w := newWorld(t)
	disk := t.TempDir()
	w.bind(onHost(disk))
	p := podWith(claimVolume("data"))
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true

	w.setup(p)

	mounts, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
	if err != nil || mounts[0].HostPath != disk || !mounts[0].ReadOnly || mounts[0].SELinuxRelabel {
		t.Error(mounts, err)
	}
	// What a running pod has, it keeps.
	delete(w.objects.claims, "data")
	w.setup(p)
}

func TestAClaimOfALocalVolume(t *testing.T) {
	w := newWorld(t)
	disk := t.TempDir()
	if err := os.WriteFile(filepath.Join(disk, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, pv := w.bind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}})
	pv.Spec.NodeAffinity = affinity("box")
	p := withGroup(podWith(claimVolume("data")), someGroup())

	w.setup(p)

	if want := "bind " + disk; len(w.mounter.done) != 1 || w.mounter.done[0] != want {
		t.Error(w.mounter.done, "want", want)
	}
	if want := "/u-1/volumes/kubernetes.io~local-volume/disk"; !strings.HasSuffix(w.dir(p), want) {
		t.Error(w.dir(p))
	}
	if m := mode(t, filepath.Join(disk, "file")); m != 0o660 {
		t.Error("the group can't write:", m)
	}
	// A second pod with another group uses it as it is, and a restart mounts nothing twice.
	if err := os.Chmod(filepath.Join(disk, "file"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.setup(p)
	q := withGroup(podWith(claimVolume("data")), int64(os.Getgid()))
	q.UID = "u-2"
	w.setup(q)
	if m := mode(t, filepath.Join(disk, "file")); m != 0o600 {
		t.Error("a volume in use was changed:", m)
	}
	if len(w.mounter.done) != 2 {
		t.Error(w.mounter.done)
	}
}

func affinity(host string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: v1.NodeSelectorOpIn, Values: []string{host}}},
	}}}}
}

func TestWithoutAClusterAClaimNamesItsVolume(t *testing.T) {
	w := newWorld(t)
	claim, pv := w.bind(onHost(t.TempDir()))
	claim.UID, claim.Status.Phase, pv.Spec.ClaimRef = "", "", nil
	w.setup(podWith(claimVolume("data")))
}

func TestClaimsThatCantBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says    string
		missing bool
		change  func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)
	}{
		{`waiting for persistentvolumeclaim "data" to be bound`, true, func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimPending }},
		{`waiting for persistentvolumeclaim "data" to be bound`, true, func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "" }},
		{`persistentvolume "gone" not found`, true, func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "gone" }},
		{`is not bound to claim "data"`, true, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) { v.Spec.ClaimRef = nil }},
		{"bound to another claim, shop/data", false, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) { v.Spec.ClaimRef.UID = "c-0" }},
		{"bound to another claim, bank/data", false, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) { v.Spec.ClaimRef.Namespace = "bank" }},
		{"is being deleted", false, func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.DeletionTimestamp = new(metav1.Now()) }},
		{"can't be used on node box", false, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) { v.Spec.NodeAffinity = affinity("crate") }},
		{"volumeMode Block is not supported for its kind", false, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
		}},
		{"mount options are not supported for this volume type (hostPath)", false, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.MountOptions = []string{"ro"}
		}},
		{"iscsi is not supported: use a PersistentVolume of the CSI driver iscsi.csi.k8s.io", false, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{}}
		}},
		{"is not a directory; for a device, set volumeMode: Block", false, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: file}}
		}},
		{"no such file", false, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/no/such"}}
		}},
		{"not an absolute path", false, func(_ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "data"}}
		}},
	} {
		w := newWorld(t)
		c.change(w.bind(onHost("/")))
		err := w.failure(podWith(claimVolume("data")), c.says)
		if errors.Is(err, ErrMissing) != c.missing {
			t.Errorf("%v: missing is %v", err, !c.missing)
		}
	}
}

func TestARunningPodKeepsAClaimThatIsBeingDeleted(t *testing.T) {
	w := newWorld(t)
	claim, _ := w.bind(onHost(t.TempDir()))
	claim.DeletionTimestamp = new(metav1.Now())
	p := podWith(claimVolume("data"))
	p.Status.Phase = v1.PodRunning
	w.setup(p)
}
