package csi

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// spoil makes a record one that can't be read.
func spoil(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, recordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestARecordThatCantBeReadHoldsUpNobody(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.attachable("h", "lost", "healed")
	lost, healed, other := w.request("a", "lost"), w.request("b", "healed"), w.request("c", "h")
	w.mount(lost)
	w.mount(healed)
	spoil(t, lost.Dir)
	spoil(t, healed.Dir)
	w.restart()
	w.register()
	w.driver.take()

	// Others have what they want, and what is staged stays attached.
	w.mount(other)
	w.unmount(other)
	w.expect("stage h", "publish h", "unpublish h", "unstage h")
	w.inUse(false, "healed", "lost")
	if n := strings.Count(log.String(), filepath.Join(lost.Dir, recordFile)); n != 1 {
		t.Errorf("it is told %d times: %s", n, &log)
	}

	// A pod that runs gets its volume anew, with a record.
	w.mount(healed)
	w.expect("stage healed", "publish healed")
	w.unmount(healed)
	w.expect("unpublish healed", "unstage healed")
	w.inUse(false, "lost")

	// Of a pod that goes, what is mounted goes, and then what is staged.
	w.unmount(lost)
	w.expect("take off mount", "unstage lost")
	w.inUse(true)
	w.nothingLeft()
}

func TestAVolumeIsNotUnstagedThatAnUnknownPodMayHave(t *testing.T) {
	w := newWorld(t)
	a, b := w.request("a", "h"), w.request("b", "h")
	w.mount(a)
	w.mount(b)
	w.driver.take()
	spoil(t, b.Dir)
	w.unmount(a)
	w.expect("unpublish h")
	w.unmount(b)
	w.expect("take off mount", "unstage h")
	w.nothingLeft()
}

func TestAnUnknownDeviceIsTakenAway(t *testing.T) {
	w := newWorld(t)
	r := w.request("a", "")
	r.Handle, r.Block, r.Dir = "h", true, filepath.Join(filepath.Dir(r.Dir), r.Name)
	w.mount(r)
	w.driver.take()
	spoil(t, r.Dir)
	w.unmount(r)
	w.expect("take off a")
	if left, err := filepath.Glob(w.cfg.PluginsDir + "/kubernetes.io/csi/volumeDevices/publish/*"); len(left) > 0 || err != nil {
		t.Error("left:", left, err)
	}
}

// kubeletRecord is what a kubelet leaves of a volume.
const kubeletRecord = `{"attachmentID":"csi-1","driverName":"` + disks + `","nodeName":"box","specVolID":"vol","volumeHandle":"h","volumeLifecycleMode":"Persistent"}`

func TestAVolumeThatAKubeletBroughtIsUnstaged(t *testing.T) {
	w := newWorld(t)
	r := w.request("a", "h")
	staging := w.m.staging(&r)
	for path, text := range map[string]string{
		filepath.Join(r.Dir, recordFile):                   kubeletRecord,
		filepath.Join(filepath.Dir(staging), recordFile):   `{"driverName":"` + disks + `","volumeHandle":"h"}`,
		filepath.Join(staging, "anything that is mounted"): "",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.driver.mounts[staging], w.driver.mounts[r.Dir+"/mount"] = true, true
	w.restart()
	w.inUse(true, "h")
	w.register()
	w.driver.before = func(call string) error {
		if call == "unstage h" {
			return os.Remove(filepath.Join(staging, "anything that is mounted"))
		}
		return nil
	}
	w.unmount(r)
	w.expect("unpublish h", "unstage h")
	w.inUse(true)
	w.nothingLeft()
}

func TestWhatIsStagedForNobodyIsUnstaged(t *testing.T) {
	// given a volume that was staged for a pod that is gone
	w := newWorld(t)
	w.attachable("h", "used")
	r := w.request("a", "h")
	w.mount(r)
	w.mount(w.request("b", "used"))
	if err := errors.Join(removeRecord(r.Dir), w.driver.takeOff(t.Context(), r.Dir+"/mount")); err != nil {
		t.Fatal(err)
	}
	w.driver.take()
	w.restart()
	w.inUse(true, "h", "used")
	// when its driver comes
	w.register()
	w.expect("unstage h")
	w.inUse(true, "used")
}

func TestABrokenFileSystemHoldsUpNobody(t *testing.T) {
	w := newWorld(t)
	w.attachable("h", "broken")
	broken := w.request("a", "broken")
	w.mount(broken)
	w.cfg.IsMount = func(path string) (bool, error) {
		if path == w.m.staging(&broken) {
			return false, errors.New("transport endpoint is not connected")
		}
		return w.driver.isMount(path)
	}
	w.restart()
	w.register()
	w.mount(w.request("b", "h"))
	w.inUse(true, "broken", "h")
}

func TestTwoPodsCantHaveTheLastPlace(t *testing.T) {
	w := newWorld(t)
	w.driver.info.MaxVolumesPerNode = 1
	w.register()
	for round := range 5 {
		var got sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			r := w.request(fmt.Sprintf("p%d", i), fmt.Sprintf("h%d", i))
			got.Go(func() { _, errs[i] = w.m.Mount(t.Context(), r) })
		}
		got.Wait()
		have := 0
		for i, err := range errs {
			if err == nil {
				have++
				w.unmount(w.request(fmt.Sprintf("p%d", i), fmt.Sprintf("h%d", i)))
			}
		}
		if have != 1 {
			t.Fatalf("round %d: %d have it: %v", round, have, errs)
		}
	}
}
