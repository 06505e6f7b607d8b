package objects

import (
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatTheClusterSaysOfDrivers(t *testing.T) {
	s := newServer(t)
	s.put(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disks"}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
	s.put(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Status: storagev1.VolumeAttachmentStatus{Attached: true}})
	both := Provider{API: newNode(t, s).API}
	p := podWith("1")
	d, err := both.CSIDriver(t.Context(), p, "disks")
	if err != nil || *d.Spec.AttachRequired {
		t.Error(d, err)
	}
	a, err := both.VolumeAttachment(t.Context(), p, "csi-1")
	if err != nil || !a.Status.Attached {
		t.Error(a, err)
	}
	_, errDriver := both.CSIDriver(t.Context(), p, "none")
	_, errAttachment := both.VolumeAttachment(t.Context(), p, "none")
	if !apierrors.IsNotFound(errDriver) || !apierrors.IsNotFound(errAttachment) {
		t.Error(errDriver, errAttachment)
	}
}

func TestWithoutAClusterVolumesAreNotAttached(t *testing.T) {
	l, err := NewLocal(LocalConfig{Log: newNode(t, newServer(t)).Log, Enqueue: newNode(t, newServer(t)).changed})
	must(t, err)
	both := Provider{Local: l}
	p := podWith("1")
	d, err := both.CSIDriver(t.Context(), p, "disks")
	if err != nil || *d.Spec.AttachRequired || len(d.Spec.VolumeLifecycleModes) != 2 {
		t.Error(d, err)
	}
	if _, err := both.VolumeAttachment(t.Context(), p, "x"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := both.TrustBundles(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), "needs a cluster") {
		t.Error(err)
	}
	if _, err := both.SecretIn(t.Context(), p, "other", "x"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
