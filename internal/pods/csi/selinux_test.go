package csi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// labelled returns a request of a pod with a SELinux label.
func (w *world) labelled(uid, handle, label string) Request {
	r := w.request(uid, handle)
	r.MountOptions = []string{"noatime"}
	r.SELinuxLabel = func() (Label, error) { return Label{Files: label, Mount: true}, nil }
	return r
}

func TestAVolumeIsMountedWithTheLabelOfItsPod(t *testing.T) {
	w := newWorld(t)
	w.described().SELinuxMount = new(true)
	r := w.labelled("u-1", "d-1", "system_u:object_r:container_file_t:s0:c1,c2")
	if !w.mount(r).Labelled {
		t.Error("its files may be labelled")
	}
	want := []string{"noatime", `context="system_u:object_r:container_file_t:s0:c1,c2"`}
	stage, publish := w.driver.stages[0].VolumeCapability.GetMount().MountFlags, w.driver.publishes[0].VolumeCapability.GetMount().MountFlags
	if !slices.Equal(stage, want) || !slices.Equal(publish, want) {
		t.Errorf("staged with %q, published with %q", stage, publish)
	}
	// It has the label after a restart, too, even if the object of the driver has changed.
	w.described().SELinuxMount = nil
	w.restart()
	w.register()
	if !w.mount(r).Labelled {
		t.Error("the label is forgotten")
	}
}

func TestVolumesThatAreNotMountedWithALabel(t *testing.T) {
	w := newWorld(t)
	plain := func(r Request) {
		t.Helper()
		if w.mount(r).Labelled {
			t.Error("its files can't be labelled")
		}
		if got := w.driver.stages[len(w.driver.stages)-1].VolumeCapability.GetMount().GetMountFlags(); slices.ContainsFunc(got, func(o string) bool { return o != "noatime" }) {
			t.Errorf("mounted with %q", got)
		}
	}
	plain(w.labelled("u-1", "d-1", "label")) // the driver can't
	w.described().SELinuxMount = new(true)
	plain(w.labelled("u-1", "d-2", "")) // the pod has none
	plain(w.request("u-1", "d-3"))
	device := w.labelled("u-1", "d-4", "label")
	device.Block = true
	plain(device)
	wrong := w.labelled("u-1", "d-5", "")
	wrong.SELinuxLabel = func() (Label, error) { return Label{Mount: true}, errors.New("two labels") }
	w.mountFails(wrong, "two labels")
}

func TestAVolumeHasOneLabelAtATime(t *testing.T) {
	w := newWorld(t)
	w.described().SELinuxMount = new(true)
	first := w.labelled("u-1", "d-1", "one")
	w.mount(first)
	w.mount(w.labelled("u-2", "d-1", "one"))
	var waiting *Waiting
	if err := w.failure(w.labelled("u-3", "d-1", "two"), `SELinux label "one"`); !errors.As(err, &waiting) {
		t.Error("the pod does not wait:", err)
	}
	w.unmount(first)
	w.unmount(w.request("u-2", "d-1"))
	w.mount(w.labelled("u-3", "d-1", "two"))
}

func TestLabelsOfVolumesAreCounted(t *testing.T) {
	w := newWorld(t)
	w.described().SELinuxMount = new(true)
	counted := map[string]int{}
	w.m.OnLabel = func(outcome LabelOutcome, warning bool, driver, accessMode string) {
		counted[fmt.Sprint(outcome, " ", warning, " ", driver, " ", accessMode)]++
	}
	expect := func(outcome LabelOutcome, warning bool, accessMode string) {
		t.Helper()
		want := map[string]int{fmt.Sprint(outcome, " ", warning, " ", w.request("u", "d").Driver, " ", accessMode): 1}
		if !maps.Equal(counted, want) {
			t.Errorf("counted %v, want %v", counted, want)
		}
		clear(counted)
	}
	shared := func(uid, handle string, label Label, err error) Request {
		r := w.request(uid, handle)
		r.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteMany}
		r.SELinuxLabel = func() (Label, error) { return label, err }
		return r
	}
	differ := fmt.Errorf("%w: a,b", ErrLabelsDiffer)

	// a volume that is mounted with its label
	alone := w.labelled("u-1", "d-1", "one")
	alone.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	w.mount(alone)
	expect(LabelAdmitted, false, "RWOP")
	alone.Pod, alone.Dir = w.labelled("u-2", "d-1", "").Pod, w.labelled("u-2", "d-1", "").Dir
	alone.SELinuxLabel = func() (Label, error) { return Label{Files: "two", Mount: true}, nil }
	w.mountFails(alone, `SELinux label "one"`)
	expect(LabelOfOthersDiffers, false, "RWOP")
	w.mountFails(shared("u-3", "d-2", Label{Mount: true}, differ), "multiple SELinux labels")
	expect(PodLabelsDiffer, false, "RWX")
	w.mountFails(shared("u-3", "d-2", Label{Mount: true}, errors.New("no such level")), "no such level")
	expect(LabelUnknown, false, "RWX")

	// a volume that is not: its failures are warnings
	w.mount(shared("u-3", "d-3", Label{}, differ))
	expect(PodLabelsDiffer, true, "RWX")
	w.mount(shared("u-3", "d-4", Label{}, errors.New("no such level")))
	expect(LabelUnknown, true, "RWX")
	w.mount(shared("u-3", "d-5", Label{Files: "one"}, nil))
	expect(LabelAdmitted, false, "RWX")
	w.mount(shared("u-4", "d-5", Label{Files: "two"}, nil))
	expect(LabelOfOthersDiffers, true, "RWX")
}
