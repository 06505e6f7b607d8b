package csi

import (
	"errors"
	"slices"
	"testing"
)

// labelled returns a request of a pod with a SELinux label.
func (w *world) labelled(uid, handle, label string) Request {
	r := w.request(uid, handle)
	r.MountOptions = []string{"noatime"}
	r.SELinuxLabel = func() (string, error) { return label, nil }
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
	wrong.SELinuxLabel = func() (string, error) { return "", errors.New("two labels") }
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
