package volume

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/render"
)

// podWithDevice is a pod whose container is given its one volume as a device.
func podWithDevice(source v1.VolumeSource) *v1.Pod {
	p := podWith(source)
	c := &p.Spec.Containers[0]
	c.VolumeMounts, c.VolumeDevices = nil, []v1.VolumeDevice{{Name: "vol", DevicePath: "/dev/x"}}
	return p
}

func (w *world) bindDevice(source v1.PersistentVolumeSource) {
	_, pv := w.bind(source)
	pv.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
}

func (w *world) devices(p *v1.Pod) []render.Device {
	w.t.Helper()
	out, err := w.m.Devices(w.t.Context(), p, &p.Spec.Containers[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func TestADeviceOfThisMachine(t *testing.T) {
	w := newWorld(t)
	w.bindDevice(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/dev/sdz"}})
	p := withGroup(podWithDevice(claimVolume("data")), someGroup())
	for _, readOnly := range []bool{false, true} {
		w.restart()
		p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = readOnly

		w.setup(p)

		want := render.Device{HostPath: "/dev/sdz", ContainerPath: "/dev/x", ReadOnly: readOnly}
		if got := w.devices(p); len(got) != 1 || got[0] != want {
			t.Error(got, "want", want)
		}
	}
	if len(w.mounter.done) > 0 {
		t.Error("something was mounted:", w.mounter.done)
	}
}

func TestADeviceOfADriver(t *testing.T) {
	w := newWorld(t)
	w.bindDevice(v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: "h"}})
	p := podWithDevice(claimVolume("data"))

	w.setup(p)

	if len(w.csi.requests) != 1 || !w.csi.requests[0].Block || w.csi.requests[0].Name != "disk" {
		t.Fatal(w.csi.requests)
	}
	if got := w.devices(p); len(got) != 1 || !strings.HasSuffix(got[0].HostPath, "/mount") || got[0].ReadOnly {
		t.Error(got)
	}
	w.restart() // nothing but the disk is known
	if err := w.m.Teardown(t.Context(), p.UID); err != nil || len(w.csi.unmounts) != 1 {
		t.Error(err, w.csi.unmounts)
	}
}

func TestDevicesThatCantBeUsed(t *testing.T) {
	w := newWorld(t)
	p := podWithDevice(claimVolume("data"))
	fails := func(says string) {
		t.Helper()
		if _, err := w.m.Devices(t.Context(), p, &p.Spec.Containers[0]); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v; want one that says %s", err, says)
		}
	}
	fails("it is not set up")

	// a file system is not a device
	w.bind(onHost(t.TempDir()))
	w.setup(p)
	fails("it is no device")

	// and a device is not a file system
	w.restart()
	w.bindDevice(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/dev/sdz"}})
	q := podWith(claimVolume("data"))
	w.setup(q)
	if _, err := w.m.Mounts(t.Context(), q, &q.Spec.Containers[0], nil); err == nil || !strings.Contains(err.Error(), "name it in volumeDevices") {
		t.Error(err)
	}

	// what is called a device has to be one
	for path, says := range map[string]string{"/srv/data": "/srv/data is not a block device", "dev/sdz": "not an absolute path"} {
		w.restart()
		w.bindDevice(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}})
		w.setupFails(p, says)
	}
}

func TestOnlyABlockDeviceIsOne(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/dev/null", "/no/such"} {
		if got, err := (Kernel{}).BlockDevice(path); err == nil {
			t.Errorf("%s is taken for device %s", path, got)
		}
	}
}
