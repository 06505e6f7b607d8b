package csi

import (
	"fmt"
	"testing"
)

// diskUse counts the lookups on the machine for the volume of one pod.
type diskUse struct{ records, lists, mounts int }

// useOfOne mounts volumes for pods, unmounts those of every second pod, and returns the lookups for
// one more pod, from its first mount to its last unmount.
func useOfOne(t *testing.T, w *world, pods int, request func(uid, handle string) Request) diskUse {
	t.Helper()
	live := func(i int) Request {
		r := request(fmt.Sprint(i), fmt.Sprint(i))
		w.attachable(r.Handle)
		w.mount(r)
		return r
	}
	for i := range pods {
		if r := live(i); i%2 == 0 {
			w.unmount(r)
		}
	}
	var use diskUse
	readRecord, listDirs, isMount := w.m.readRecord, w.m.listDirs, w.m.IsMount
	w.m.readRecord = func(dir string) (*record, error) { use.records++; return readRecord(dir) }
	w.m.listDirs = func(dir string) ([]string, error) { use.lists++; return listDirs(dir) }
	w.m.IsMount = func(path string) (bool, error) { use.mounts++; return isMount(path) }
	r := live(pods)
	w.mount(r) // as in each round of its pod
	w.unmount(r)
	return use
}

// A volume must not cost a pod more because others have some, too.
func TestWhatAVolumeReadsDoesNotDependOnOthers(t *testing.T) {
	for kind, prepare := range map[string]func(w *world) func(uid, handle string) Request{
		"file system": func(w *world) func(uid, handle string) Request { return w.request },
		"device that is not staged": func(w *world) func(uid, handle string) Request {
			w.stages(false)
			return w.device
		},
		"device, in no cluster, after a restart": func(w *world) func(uid, handle string) Request {
			w.driver.info.MaxVolumesPerNode = 1000
			w.mount(w.device("before", "before"))
			w.alone()
			return w.device
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			few, many := newWorld(t), newWorld(t)
			among50 := useOfOne(t, few, 50, prepare(few))
			among500 := useOfOne(t, many, 500, prepare(many))
			if among50 != among500 || among500.records == 0 || among500.mounts == 0 {
				t.Errorf("a pod among 50: %+v; among 500: %+v", among50, among500)
			}
		})
	}
}
