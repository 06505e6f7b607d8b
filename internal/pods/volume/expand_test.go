package volume

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
)

func diskSource() v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: "d-1"}}
}

// withExpander gives the world an expander that is due at a time.
func (w *world) withExpander(due time.Time) *fakeExpander {
	w.t.Helper()
	f := &fakeExpander{again: due}
	w.cfg.Expander = f
	w.restart()
	return f
}

func TestAPersistentVolumeOfADriverIsExpandedAtMountAndOnline(t *testing.T) {
	w := newWorld(t)
	due := time.Now().Add(time.Hour)
	expander := w.withExpander(due)
	claim, _ := w.bind(diskSource())
	claim.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	p := podWith(claimVolume("data"))
	for range 2 {
		if again := w.setup(p); !again.Equal(due) {
			t.Error("the next look is at", again)
		}
	}
	if err := w.m.Teardown(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
	want := []string{"mount data disk disk false", "online data disk disk false", "online data disk disk false", "forget u-1"}
	if !slices.Equal(expander.calls, want) {
		t.Errorf("got %q", expander.calls)
	}
	if got := w.csi.requests[0].Size; got != 1<<30 {
		t.Errorf("the size of the claim is %d", got)
	}
}

func TestVolumesThatNothingResizes(t *testing.T) {
	w := newWorld(t)
	expander := w.withExpander(time.Time{})
	w.bind(diskSource())
	static := podWith(claimVolume("data"))
	static.Annotations = map[string]string{pod.AnnotationSource: pod.SourceFile}
	w.setup(static)
	w.bind(onHost(t.TempDir()))
	other := podWith(claimVolume("data"))
	other.UID = "u-2"
	w.setup(other)
	inline := podWith(csiVolume())
	inline.UID = "u-3"
	w.setup(inline)
	if len(expander.calls) > 0 {
		t.Errorf("got %q", expander.calls)
	}
}
