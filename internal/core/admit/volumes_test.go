package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func withVolume(source v1.VolumeSource) *v1.Pod {
	p := newPod("web")
	p.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, {Name: "disk", VolumeSource: source}}
	return p
}

func TestVolumesThatAreNotSupported(t *testing.T) {
	p := withVolume(v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{}})
	want := Rejection{pod.ReasonFeatureUnsupported, `volume "disk": cephfs is not supported: mount the storage on this machine, and use a hostPath or a PersistentVolume of kind local`}
	if got := Check(p, nil, Node{}); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Check(p, nil, Node{InCluster: true}); got != nil {
		t.Errorf("in a cluster, the controller of the pod would make new ones for ever: %+v", got)
	}
}

func TestMigratedVolumesAreAdmitted(t *testing.T) {
	if got := Check(withVolume(v1.VolumeSource{Cinder: &v1.CinderVolumeSource{}}), nil, Node{}); got != nil {
		t.Errorf("rejected: %+v", got)
	}
}

func TestCertificatesAreForPodsOfACluster(t *testing.T) {
	p := withVolume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{PodCertificate: &v1.PodCertificateProjection{}}}}})
	if got := Check(p, nil, Node{InCluster: true}); got != nil {
		t.Errorf("rejected: %+v", got)
	}
	want := Rejection{pod.ReasonFeatureUnsupported, `volume "disk": a podCertificate is for pods of a cluster: take the key and the certificate from a secret`}
	if got := Check(p, nil, Node{}); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	if got := Check(p, nil, Node{InCluster: true}); got == nil || *got != want {
		t.Errorf("a static pod: got %+v, want %+v", got, want)
	}
}
