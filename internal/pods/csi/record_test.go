package csi

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"berth/internal/lib/podfile"
)

// spoil makes a record unreadable.
func spoil(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, recordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestARecordThatCantBeReadHoldsUpNoPod(t *testing.T) {
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
	w.inUse(true, "healed", "lost")
	if n := strings.Count(log.String(), filepath.Join(lost.Dir, recordFile)); n != 1 {
		t.Errorf("it is reported %d times: %s", n, &log)
	}

	// A pod that runs gets its volume anew, with a record.
	w.mount(healed)
	w.expect("stage healed", "publish healed")
	w.unmount(healed)
	w.expect("unpublish healed", "unstage healed")
	w.inUse(true, "lost")

	// For a pod that goes, there is another record.
	w.unmount(lost)
	w.expect("unpublish lost", "unstage lost")
	w.inUse(true)
	w.nothingLeft()
}

func TestAVolumeIsNotUnstagedThatAnUnknownPodMayHave(t *testing.T) {
	// given a pod with a volume whose name is not known, as a kubelet stages it
	w := newWorld(t)
	a, b := w.request("a", "h"), w.request("b", "h")
	w.mount(a)
	w.mount(b)
	w.driver.take()
	spoil(t, b.Dir)
	if err := (record{Handle: "h", Driver: disks}).write(w.copyDir(b)); err != nil {
		t.Fatal(err)
	}
	w.unmount(a)
	w.expect("unpublish h")
	w.unmount(b)
	w.expect("take off mount", "unstage h")
	w.nothingLeft()
}

// device is a request for one.
func (w *world) device(uid, handle string) Request {
	r := w.request(uid, handle)
	r.Block = true
	return r
}

// copyDir is where the other record of a volume lies.
func (w *world) copyDir(r Request) string {
	rec := record{Name: r.Name, Handle: r.id().handle, Driver: r.Driver}
	if r.Block {
		rec.Device = w.m.target(&r)
	}
	return w.m.copyDir(rec)
}

func TestADeviceWhoseRecordCantBeReadIsUnstaged(t *testing.T) {
	w := newWorld(t)
	w.attachable("h")
	a, b := w.device("a", "h"), w.device("b", "h")
	w.mount(a)
	w.mount(b)
	w.driver.take()
	spoil(t, a.Dir)
	spoil(t, b.Dir)
	w.restart()
	w.register()
	w.inUse(true, "h")
	w.unmount(a)
	w.expect("unpublish h")
	w.inUse(true, "h")
	w.unmount(b)
	w.expect("unpublish h", "unstage h")
	w.inUse(true)
	w.devicesGone()
}

func TestADeviceOfWhichNothingIsKnown(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.restart()
	w.register()
	w.attachable("h", "other")
	r := w.device("a", "h")
	w.mount(r)
	w.driver.take()
	spoil(t, r.Dir)
	spoil(t, w.copyDir(r))

	// What can be done without its driver is done, and the rest is logged.
	w.unmount(r)
	w.expect("take off a")
	if left, err := filepath.Glob(w.cfg.PluginsDir + "/kubernetes.io/csi/volumeDevices/publish/*"); len(left) > 0 || err != nil {
		t.Error("left:", left, err)
	}
	if !strings.Contains(log.String(), "unmounted without its driver") || !strings.Contains(log.String(), w.copyDir(r)) {
		t.Error(&log)
	}
	// Each agent logs it again, and an attached volume stays attached.
	log.Reset()
	w.restart()
	w.register()
	w.inUse(false)
	if !strings.Contains(log.String(), w.copyDir(r)) {
		t.Error(&log)
	}
	// No other volume waits for it, and the next pod that has the volume repairs its record.
	other := w.request("b", "other")
	w.mount(other)
	w.unmount(other)
	w.expect("stage other", "publish other", "unpublish other", "unstage other")
	w.mount(r)
	w.unmount(r)
	w.expect("stage h", "publish h", "unpublish h", "unstage h")
	w.inUse(true)
	w.devicesGone()
}

func TestADeviceThatHasNoOtherRecord(t *testing.T) {
	// given a device that an earlier version staged
	w := newWorld(t)
	var log bytes.Buffer
	w.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.attachable("h")
	r := w.device("a", "h")
	w.mount(r)
	if err := os.RemoveAll(filepath.Dir(w.copyDir(r))); err != nil {
		t.Fatal(err)
	}
	w.driver.take()
	w.restart()
	w.register()
	w.inUse(true, "h")
	w.unmount(r)
	w.expect("unpublish h", "unstage h")
	w.inUse(true)
	w.devicesGone()
	// then there is nothing to undo by hand
	if log.Len() > 0 {
		t.Error(&log)
	}
}

func TestADeviceThatIsStagedForNoPodIsUnstaged(t *testing.T) {
	// given devices that were staged, one for a pod that is gone, and one that a kubelet
	// has published for a pod that runs
	w := newWorld(t)
	w.attachable("h", "used")
	gone, used := w.device("a", "h"), w.device("b", "used")
	w.mount(gone)
	w.mount(used)
	if err := os.WriteFile(w.m.target(&used), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Request{gone, used} {
		if err := removeRecord(r.Dir); err != nil {
			t.Fatal(err)
		}
	}
	w.driver.take()
	w.restart()
	w.inUse(false, "h", "used")
	// when the driver comes
	w.register()
	w.expect("unstage h")
	w.inUse(false, "used")
	// and when the pod has it from us
	w.mount(used)
	w.inUse(true, "used")
	w.unmount(used)
	w.expect("stage used", "publish used", "unpublish used", "unstage used")
}

func TestAVolumeOfAPodAloneWhoseRecordCantBeRead(t *testing.T) {
	w := newWorld(t)
	w.described().VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent}
	// given such volumes, and a persistent one of the same name
	alone, other := w.request("a", ""), w.request("b", "")
	persistent := w.request("c", "h")
	persistent.Name, persistent.Dir = alone.Name, filepath.Join(filepath.Dir(persistent.Dir), alone.Name)
	for _, r := range []Request{alone, other, persistent} {
		w.mount(r)
		spoil(t, r.Dir)
	}
	w.driver.take()
	w.restart()
	w.register()
	w.unmount(other)
	w.unmount(persistent)
	w.unmount(alone)
	w.expect("unpublish "+other.id().handle, "unpublish h", "unstage h", "unpublish "+alone.id().handle)
	w.nothingLeft()
}

func TestAPodWhoseVolumesCantBeListedMayHaveAny(t *testing.T) {
	w := newWorld(t)
	a, b := w.request("a", "h"), w.request("b", "h")
	w.mount(a)
	w.mount(b)
	w.driver.take()
	volumes := filepath.Dir(b.Dir)
	if err := errors.Join(os.Rename(volumes, volumes+".away"), os.WriteFile(volumes, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	w.unmount(a)
	w.expect("unpublish h")
	if err := errors.Join(os.Remove(volumes), os.Rename(volumes+".away", volumes)); err != nil {
		t.Fatal(err)
	}
	w.unmount(b)
	w.expect("unpublish h", "unstage h")
	w.nothingLeft()
}

// What a kubelet leaves of a volume: its record, and the other one.
const (
	kubeletRecord = `{"attachmentID":"csi-1","driverName":"` + disks + `","nodeName":"box","specVolID":"vol","volumeHandle":"h","volumeLifecycleMode":"Persistent"}`
	kubeletCopy   = `{"driverName":"` + disks + `","volumeHandle":"h"}`
)

func TestAVolumeThatAKubeletBroughtIsUnstaged(t *testing.T) {
	w := newWorld(t)
	r := w.request("a", "h")
	staging := w.m.staging(&r)
	put(t, filepath.Join(r.Dir, recordFile), kubeletRecord)
	put(t, filepath.Join(w.copyDir(r), recordFile), kubeletCopy)
	put(t, filepath.Join(staging, "anything that is mounted"), "")
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

func TestAVolumeThatIsStagedForNoPodIsUnstaged(t *testing.T) {
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

func TestABrokenFileSystemHoldsUpNoPod(t *testing.T) {
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
	w.alone()
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

func TestARecordIsASmallRegularFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, recordFile)
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(dir); !errors.Is(err, podfile.ErrTooLarge) {
		t.Errorf("a sparse file: %v", err)
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(dir); !errors.Is(err, podfile.ErrNotRegular) {
		t.Errorf("a pipe: %v", err)
	}
}

func TestARecordThatIsRepairedOrGoesIsNoticed(t *testing.T) {
	for what, mend := range map[string]func(r Request, good []byte) error{
		"repaired":         func(r Request, good []byte) error { return os.WriteFile(filepath.Join(r.Dir, recordFile), good, 0o600) },
		"gone with a pod":  func(r Request, _ []byte) error { return os.RemoveAll(filepath.Dir(filepath.Dir(filepath.Dir(r.Dir)))) },
		"gone with a file": func(r Request, _ []byte) error { return os.Remove(filepath.Join(r.Dir, recordFile)) },
	} {
		t.Run(what, func(t *testing.T) {
			// given a record that can't be read, and no other one
			w := newWorld(t)
			w.attachable("h", "other")
			r, other := w.request("a", "h"), w.request("b", "other")
			w.mount(r)
			good, err := os.ReadFile(filepath.Join(r.Dir, recordFile))
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, r.Dir)
			spoil(t, w.copyDir(r))
			w.driver.reboot()
			w.restart()
			w.inUse(false)
			w.register()
			// when that ends while the agent runs
			if err := mend(r, good); err != nil {
				t.Fatal(err)
			}
			// then it is reported to the cluster with the next volume, and the disk is read no more
			w.mount(other)
			if what == "repaired" {
				w.inUse(true, "h", "other")
			} else {
				w.inUse(true, "other")
			}
			readRecord := w.m.readRecord
			w.m.readRecord = func(dir string) (*record, error) {
				if dir != other.Dir {
					t.Error("read:", dir)
				}
				return readRecord(dir)
			}
			w.unmount(other)
		})
	}
}

func TestARecordThatCantBeWrittenIsNoRecord(t *testing.T) {
	w := newWorld(t)
	w.attachable("h")
	r := w.request("a", "h")
	blocks := filepath.Join(r.Dir, recordFile+".new")
	if err := os.MkdirAll(blocks, 0o750); err != nil {
		t.Fatal(err)
	}
	w.mountFails(r, "write down a CSI volume")
	w.m.Forget("a")
	w.inUse(true)
	if users, err := w.m.Users(); len(users) > 0 || err != nil {
		t.Error(users, err)
	}
	if err := os.Remove(blocks); err != nil {
		t.Fatal(err)
	}
	w.mount(r)
	w.m.Forget("a")
	w.inUse(true, "h")
	w.unmount(r)
	w.expect("stage h", "publish h", "unpublish h", "unstage h")
	w.nothingLeft()
}

// The index says what a scan of the disk would, whatever was done.
func TestTheIndexSaysWhatTheDiskSays(t *testing.T) {
	w := newWorld(t)
	w.described().VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent}
	same := func(after string) {
		t.Helper()
		found, complete, err := w.m.scan()
		if err != nil || !complete || !w.m.index.isComplete() {
			t.Fatal(after, complete, err)
		}
		// Places that are not there are left out by a scan.
		for _, copies := range []map[string]record{found.copies, w.m.index.copies} {
			maps.DeleteFunc(copies, func(dir string, _ record) bool { return !w.m.isStaged(dir) })
		}
		if !reflect.DeepEqual(found, w.m.index.onDisk) {
			t.Fatalf("after %s: on disk %+v, in memory %+v", after, found, w.m.index.onDisk)
		}
	}
	chance := rand.New(rand.NewPCG(1, 2))
	var requests []Request
	for _, uid := range []string{"a", "b", "c"} {
		requests = append(requests, w.request(uid, "h"), w.request(uid, uid), w.request(uid, ""), w.device(uid, "disk"))
	}
	for range 100 {
		r := requests[chance.IntN(len(requests))]
		w.driver.before = nil
		if fails := chance.IntN(12); fails < 4 {
			step := []string{"stage", "publish", "unpublish", "unstage"}[fails]
			w.driver.before = func(call string) error {
				if strings.HasPrefix(call, step+" ") {
					return errors.New("out of disks")
				}
				return nil
			}
		}
		what := fmt.Sprintf("%s of %s", r.Name, r.Pod.UID)
		if chance.IntN(2) == 0 {
			_, err := w.m.Mount(t.Context(), r)
			same(fmt.Sprintf("mount %s: %v", what, err))
		} else {
			err := w.m.Unmount(t.Context(), r.Pod.UID, r.Dir, r.OnStep)
			same(fmt.Sprintf("unmount %s: %v", what, err))
		}
	}
	w.driver.before = nil
	for _, r := range requests {
		w.unmount(r)
	}
	same("all are gone")
	w.devicesGone()
}

func TestAScanThatFailsForgetsNoVolume(t *testing.T) {
	// given two pods that have a volume, and an index that is not trusted
	w := newWorld(t)
	a, b := w.request("a", "h"), w.request("b", "h")
	w.mount(a)
	w.mount(b)
	w.driver.take()
	w.m.index.markIncomplete()
	// when the pods can't be listed
	listDirs := w.m.listDirs
	w.m.listDirs = func(dir string) ([]string, error) {
		if dir == w.m.PodsDir {
			return nil, errors.New("input/output error")
		}
		return listDirs(dir)
	}
	if err := w.m.Unmount(t.Context(), "a", a.Dir, a.OnStep); err == nil || !strings.Contains(err.Error(), "input/output error") {
		t.Error(err)
	}
	// then nothing is unstaged, and both are known
	w.expect("unpublish h")
	if users, err := w.m.Users(); len(users) != 2 || err == nil {
		t.Error(users, err)
	}
	w.m.listDirs = listDirs
	w.unmount(a)
	w.unmount(b)
	w.expect("unpublish h", "unpublish h", "unstage h")
	w.nothingLeft()
}
