package csi

import (
	"os"
	"path/filepath"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// stages registers the driver again, as a driver that stages volumes or does not.
func (w *world) stages(does bool) {
	w.t.Helper()
	w.driver.can = nil
	if does {
		w.driver.can = []spec.NodeServiceCapability_RPC_Type{spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	}
	w.register()
}

// put writes a file, and the directories above it.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ofEachKind runs a test with volume h, once as a file system and once as a device.
func ofEachKind(t *testing.T, story func(t *testing.T, w *world, request func(uid string) Request)) {
	t.Run("file system", func(t *testing.T) {
		w := newWorld(t)
		story(t, w, func(uid string) Request { return w.request(uid, "h") })
	})
	t.Run("device", func(t *testing.T) {
		w := newWorld(t)
		story(t, w, func(uid string) Request { return w.device(uid, "h") })
	})
}

func TestAKubeletMakesAPlaceForWhatIsNotStaged(t *testing.T) {
	w := newWorld(t)
	w.stages(false)
	r := w.request("a", "h")
	put(t, filepath.Join(r.Dir, recordFile), kubeletRecord)
	put(t, filepath.Join(w.copyDir(r), recordFile), kubeletCopy)
	if err := os.Mkdir(w.m.staging(&r), 0o750); err != nil {
		t.Fatal(err)
	}
	w.driver.mounts[r.Dir+"/mount"] = true
	w.restart()
	w.register()
	w.unmount(r)
	w.expect("unpublish h")
	w.nothingLeft()
}

func TestARecordThatWasBegunHoldsUpNoPod(t *testing.T) {
	ofEachKind(t, func(t *testing.T, w *world, request func(string) Request) {
		// given an agent that was killed while it wrote the other record
		r := request("a")
		w.mount(r)
		put(t, filepath.Join(w.copyDir(r), recordFile+".new"), "{")
		w.driver.take()
		w.restart()
		w.register()
		w.unmount(r)
		w.expect("unpublish h", "unstage h")
		w.gone(r)
	})
}

func TestFilesThatADriverLeavesHoldUpNoPod(t *testing.T) {
	ofEachKind(t, func(t *testing.T, w *world, request func(string) Request) {
		r := request("a")
		w.mount(r)
		notes := filepath.Join(w.copyDir(r), "notes")
		put(t, notes, "of the driver")
		w.driver.take()
		w.unmount(r)
		w.expect("unpublish h", "unstage h")
		if err := os.Remove(notes); err != nil {
			t.Error("it is gone:", err)
		}
		w.inUse(true)
	})
}

func TestADriverThatStagesOnlyNow(t *testing.T) {
	ofEachKind(t, func(t *testing.T, w *world, request func(string) Request) {
		// given a pod that has a volume from before its driver staged any
		w.stages(false)
		w.attachable("h")
		a, b := request("a"), request("b")
		w.mount(a)
		w.expect("publish h")
		w.stages(true)
		// when another pod has it, then it is staged
		w.mount(b)
		w.expect("stage h", "publish h")
		w.unmount(b)
		w.expect("unpublish h")
		// and when the first one goes, it is unstaged
		w.restart()
		w.register()
		w.unmount(a)
		w.expect("unpublish h", "unstage h")
		w.inUse(true)
		w.gone(a)
	})
}

func TestADriverThatStagesNothingAnyMore(t *testing.T) {
	// given a volume that is staged, and a driver that can't undo that
	w := newWorld(t)
	w.attachable("h")
	r := w.request("a", "h")
	w.mount(r)
	w.stages(false)
	w.driver.take()
	// when its last pod goes, then it stays staged, and attached
	w.unmount(r)
	w.expect("unpublish h")
	w.inUse(true, "h")
	// until the driver can
	w.stages(true)
	w.expect("unstage h")
	w.inUse(true)
	w.nothingLeft()
}

func TestADeviceThatIsNotStagedAndWhoseRecordCantBeRead(t *testing.T) {
	w := newWorld(t)
	w.stages(false)
	r := w.device("a", "h")
	w.mount(r)
	w.driver.take()
	spoil(t, r.Dir)
	w.restart()
	w.register()
	w.unmount(r)
	w.expect("unpublish h")
	w.gone(r)
}

// gone checks that nothing is left of a volume.
func (w *world) gone(r Request) {
	w.t.Helper()
	if r.Block {
		w.devicesGone()
		return
	}
	w.nothingLeft()
}
