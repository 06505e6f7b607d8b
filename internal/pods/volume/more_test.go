package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/internal/pods/csi"
)

func csiVolume() v1.VolumeSource {
	return v1.VolumeSource{CSI: &v1.CSIVolumeSource{
		Driver: "disks.example.com", FSType: new("ext4"), ReadOnly: new(true), VolumeAttributes: map[string]string{"size": "1"},
		NodePublishSecretRef: &v1.LocalObjectReference{Name: "key"},
	}}
}

func TestAVolumeThatADriverMakes(t *testing.T) {
	w := newWorld(t)
	p := withGroup(podWith(csiVolume()), someGroup())
	w.setup(p)
	w.setup(p) // makes no request again
	if len(w.csi.requests) != 1 {
		t.Fatal(w.csi.requests)
	}
	r := w.csi.requests[0]
	if r.Driver != "disks.example.com" || r.Handle != "" || r.FSType != "ext4" || !r.ReadOnly || r.Attributes["size"] != "1" ||
		*r.PublishSecret != (v1.SecretReference{Namespace: "shop", Name: "key"}) || r.Group != int(someGroup()) || r.Pod != p {
		t.Errorf("%+v", r)
	}
	mounts, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
	if err != nil || !strings.HasSuffix(mounts[0].HostPath, "/u-1/volumes/kubernetes.io~csi/vol/mount") || !mounts[0].ReadOnly {
		t.Error(mounts, err)
	}
	// and it can be given to the group
	file := filepath.Join(mounts[0].HostPath, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), r.ApplyFSGroup(mounts[0].HostPath)); err != nil || mode(t, file) != 0o660 {
		t.Error(err, mode(t, file))
	}

	// when the driver is away, then nothing is removed
	w.restart()
	w.csi.fails = errors.New("CSI driver disks.example.com is not registered")
	if err := w.m.Teardown(t.Context(), p.UID); err == nil || !strings.Contains(err.Error(), `volume "vol": CSI driver disks.example.com`) {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	w.csi.fails = nil
	if err := w.m.Teardown(t.Context(), p.UID); err != nil || !slices.Equal(w.csi.unmounts, []string{"u-1 vol"}) {
		t.Error(err, w.csi.unmounts)
	}
}

func TestADriverThatWantsToBeAskedAgainIs(t *testing.T) {
	w := newWorld(t)
	w.csi.again = time.Now().Add(time.Hour)
	p := podWith(csiVolume())
	if due := w.setup(p); !due.Equal(w.csi.again) {
		t.Error(due)
	}
	w.setup(p)
	if len(w.csi.requests) != 2 {
		t.Error(w.csi.requests)
	}
	// and one that can't be renewed can be used
	w.csi.fails, w.csi.keeps = errors.New("out of order"), true
	if err := w.failure(p, "out of order"); !usable(err) {
		t.Error(err)
	}
}

func TestAClaimOfACSIVolume(t *testing.T) {
	w := newWorld(t)
	_, pv := w.bind(v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
		Driver: "disks.example.com", VolumeHandle: "h-1", FSType: "xfs", NodeStageSecretRef: &v1.SecretReference{Name: "s", Namespace: "kube-system"},
	}})
	pv.Spec.MountOptions = []string{"noatime"}
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	p := podWith(claimVolume("data"))
	w.setup(p)
	r := w.csi.requests[0]
	if r.Name != "disk" || r.Handle != "h-1" || r.FSType != "xfs" || r.MountOptions[0] != "noatime" || r.StageSecret.Name != "s" || r.AccessModes[0] != v1.ReadWriteMany {
		t.Errorf("%+v", r)
	}

	// a volume that waits to be attached is checked again soon, since nothing announces it
	w.csi.fails = &csi.Waiting{What: "the volume to be attached to this node"}
	q := podWith(claimVolume("data"))
	q.UID = "u-2"
	due, err := w.m.Setup(t.Context(), q, nil)
	if err == nil || !strings.Contains(err.Error(), `persistent volume "disk": waiting for the volume to be attached`) || time.Until(due) > pollInterval || due.IsZero() {
		t.Error(due, err)
	}
	pv.Spec.CSI.VolumeHandle = ""
	w.setupFails(q, "volumeHandle is empty")
}

func TestAnEphemeralClaimMustBeThePodsOwn(t *testing.T) {
	w := newWorld(t)
	claim, _ := w.bind(onHost(t.TempDir()))
	w.objects.claims["web-vol"] = claim
	p := podWith(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}})

	w.setupFails(p, "was not made for this pod")
	claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "web", UID: "u-1", Controller: new(true)}}
	w.setup(p)

	// one that is not made yet is waited for
	delete(w.objects.claims, "web-vol")
	w.restart()
	due, err := w.m.Setup(t.Context(), p, nil)
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), `persistentvolumeclaim "web-vol" not found`) || due.IsZero() {
		t.Error(due, err)
	}
}

func TestNFS(t *testing.T) {
	w := newWorld(t)
	p := podWith(v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "fd00::1", Path: "/export", ReadOnly: true}})
	w.setup(p)
	w.setup(p)
	w.restart()
	w.setup(p) // and not a second time
	if !slices.Equal(w.mounter.done, []string{"nfs [fd00::1]:/export ro"}) {
		t.Error(w.mounter.done)
	}
	if !strings.HasSuffix(w.dir(p), "/u-1/volumes/kubernetes.io~nfs/vol") {
		t.Error(w.dir(p))
	}
	_, pv := w.bind(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "files", Path: "/x"}})
	pv.Spec.MountOptions = []string{"nfsvers=4.2", "hard"}
	q := podWith(claimVolume("data"))
	q.UID = "u-2"
	w.setup(q)
	if got := w.mounter.done[1]; got != "nfs files:/x nfsvers=4.2,hard" {
		t.Error(got)
	}
	if err := w.m.Teardown(t.Context(), "u-2"); err != nil || len(w.mounter.mounts) != 1 {
		t.Error(err, w.mounter.mounts)
	}
	for _, bad := range []v1.NFSVolumeSource{{Path: "/x"}, {Server: "-o", Path: "/x"}, {Server: "a b", Path: "/x"}, {Server: "a", Path: "x"}} {
		b := podWith(v1.VolumeSource{NFS: &bad})
		b.UID = "u-3"
		w.setupFails(b, "nfs ")
	}
}

func TestAMachineWithoutNFSSaysWhatToInstall(t *testing.T) {
	err := Kernel{}.MountRemote(t.Context(), "no-such-file-system", "a:/b", t.TempDir(), nil)
	if err == nil || !strings.Contains(err.Error(), "install nfs-common") {
		t.Error(err)
	}
}

func TestAnImageAsAVolume(t *testing.T) {
	w := newWorld(t)
	pulls, present := 0, false
	again := time.Now().Add(time.Hour)
	w.cfg.Image = func(_ context.Context, p *v1.Pod, volume string, s *v1.ImageVolumeSource) (string, time.Time, error) {
		pulls++
		if volume != "vol" || p.UID != "u-1" || s.PullPolicy != v1.PullAlways {
			t.Error(p.UID, volume, s)
		}
		if !present {
			return "", again, errors.New("ImagePullBackOff: no such image")
		}
		return "sha256:1", time.Time{}, nil
	}
	w.restart()
	p := podWith(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/data:1", PullPolicy: v1.PullAlways}})
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "a/b"

	due, err := w.m.Setup(t.Context(), p, nil)
	if err == nil || !strings.Contains(err.Error(), `volume "vol": ImagePullBackOff: no such image`) || !due.Equal(again) || usable(err) {
		t.Error(due, err)
	}
	present = true
	w.setup(p)
	w.setup(p)
	if pulls != 2 {
		t.Error(pulls, "pulls")
	}
	mounts, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
	if err != nil || mounts[0].Image != "sha256:1" || mounts[0].SubPath != "a/b" || mounts[0].HostPath != "" || !mounts[0].ReadOnly {
		t.Error(mounts, err)
	}
	if _, err := w.m.File(t.Context(), p, "vol", "a"); err == nil {
		t.Error("a file in an image was read")
	}
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "../x"
	if _, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil); err == nil {
		t.Error("a subPath leads out")
	}
}

const twoCertificates = "# notes\n-----BEGIN CERTIFICATE-----\nAQ==\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nAg==\n-----END CERTIFICATE-----\n"

func TestTrustBundles(t *testing.T) {
	w := newWorld(t)
	w.objects.bundles = []string{twoCertificates, "-----BEGIN CERTIFICATE-----\nAQ==\n-----END CERTIFICATE-----\n"}
	source := &v1.ClusterTrustBundleProjection{Name: new("roots"), Path: "ca/roots.pem"}
	p := podWith(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ClusterTrustBundle: source}}}})

	if due := w.setup(p); !due.IsZero() {
		t.Error("it is looked at again, although a change would be reported:", due)
	}
	w.must(w.dir(p), map[string]string{"ca/roots.pem": strings.TrimPrefix(twoCertificates, "# notes\n")})

	w.objects.bundles, w.objects.noBundles = nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clustertrustbundles"}, "roots")
	if err := w.failure(p, `clustertrustbundle "roots" not found`); !errors.Is(err, ErrMissing) || !usable(err) {
		t.Error(err)
	}
	source.Optional = new(true)
	w.setup(p)
	w.must(w.dir(p), map[string]string{"ca/roots.pem": ""})
	w.objects.noBundles = errors.New("the API server has no clustertrustbundles")
	w.setupFails(p, "has no clustertrustbundles")
	w.objects.noBundles, w.objects.bundles = nil, []string{"-----BEGIN RSA PRIVATE KEY-----\nAQ==\n-----END RSA PRIVATE KEY-----\n"}
	w.setupFails(p, "not a certificate")
	w.objects.bundles, source.Optional = nil, nil
	w.setupFails(p, "no clustertrustbundle matches")
}
