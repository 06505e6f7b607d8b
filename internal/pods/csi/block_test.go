package csi

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPodsShareADevice(t *testing.T) {
	w := newWorld(t)
	a, b := w.request("a", "h"), w.request("b", "h")
	a.Block, b.Block = true, true
	a.Group, a.FSType = 7, "ext4" // which is nothing for a device
	devices := filepath.Join(w.cfg.PluginsDir, "kubernetes.io/csi/volumeDevices")

	// given two pods with the same device
	if got, want := w.mount(a).Path, devices+"/publish/volh/a"; got != want {
		t.Error(got, "want", want)
	}
	w.mount(b)
	w.mount(a) // which does nothing
	w.expect("stage h", "publish h", "publish h")
	staged, published := w.driver.stages[0], w.driver.publishes[0]
	if staged.StagingTargetPath != devices+"/staging/volh" || published.StagingTargetPath != staged.StagingTargetPath || published.TargetPath != devices+"/publish/volh/a" {
		t.Error(staged, published)
	}
	if staged.VolumeCapability.GetBlock() == nil || published.VolumeCapability.GetBlock() == nil {
		t.Error("they are not wanted as devices:", staged, published)
	}
	if _, err := os.Stat(filepath.Dir(published.TargetPath)); err != nil {
		t.Error(err)
	}

	// when the agent is another one, and the driver leaves its file, then all goes nevertheless
	if err := os.WriteFile(published.TargetPath, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.mount(b) // which needs no driver
	w.register()
	w.unmount(b)
	w.unmount(a)
	w.expect("unpublish h", "unpublish h", "unstage h")
	w.devicesGone()
}

func TestADeviceIsWrittenDownFirst(t *testing.T) {
	w := newWorld(t)
	r := w.request("a", "h")
	r.Block = true
	w.driver.before = func(call string) error {
		if call == "publish h" {
			return errors.New("out of disks")
		}
		return nil
	}
	w.mountFails(r, "NodePublishVolume")
	w.driver.before = nil
	w.restart()
	w.register()
	w.unmount(r)
	w.expect("stage h", "unpublish h", "unstage h")
	if got := w.driver.publishes[0].TargetPath; filepath.Base(got) != "a" {
		t.Error(got)
	}
	w.devicesGone()
}

// devicesGone checks that nothing is left of devices. Two directories may stay: those of all
// devices.
func (w *world) devicesGone() {
	w.t.Helper()
	devices := filepath.Join(w.cfg.PluginsDir, "kubernetes.io/csi/volumeDevices")
	for _, dir := range []string{"publish", "staging"} {
		if left, err := filepath.Glob(filepath.Join(devices, dir, "*")); err != nil || len(left) > 0 {
			w.t.Error("left:", left, err)
		}
	}
	if err := os.RemoveAll(devices); err != nil {
		w.t.Fatal(err)
	}
	w.nothingLeft()
}
