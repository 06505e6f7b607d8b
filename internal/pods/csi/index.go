package csi

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"berth/internal/lib/volumekind"
)

// index is what the records on disk say, in memory: to mount a volume for one pod, those
// of all others need not be read.
//
// It is filled by a scan of the disk, when it is first asked, and changes together with the
// files, see save and remove. A record that can't be read, a file that could not be written,
// or a device that was staged without a second record makes the index incomplete: then the
// disk is scanned each time, since nobody tells us when such a file is repaired, or goes with
// the directory of its pod.
type index struct {
	files sync.RWMutex // held for reading while one record changes, for writing while the disk is scanned

	mu       sync.Mutex
	filled   bool // once the disk was scanned without an error
	complete bool // as long as the disk need not be scanned again
	onDisk
}

// onDisk is what is written down of all volumes, by the directory in which it is.
type onDisk struct {
	pods     map[string]record
	byVolume map[volumeID]map[string]bool // directories of pods, by the volume that is in them
	copies   map[string]record            // other records; Staging is where the volume is staged, if it is
	unread   map[string]bool              // directories of pods that have volumes, and tell nothing of them
	lost     map[string]bool              // those of other records of what is staged, that tell nothing of it
}

func newOnDisk() onDisk {
	return onDisk{
		pods: map[string]record{}, byVolume: map[volumeID]map[string]bool{}, copies: map[string]record{},
		unread: map[string]bool{}, lost: map[string]bool{},
	}
}

func (o *onDisk) put(dir string, r record) {
	o.forget(dir)
	o.pods[dir] = r
	if o.byVolume[r.id()] == nil {
		o.byVolume[r.id()] = map[string]bool{}
	}
	o.byVolume[r.id()][dir] = true
}

func (o *onDisk) forget(dir string) {
	if r, ok := o.pods[dir]; ok {
		if delete(o.byVolume[r.id()], dir); len(o.byVolume[r.id()]) == 0 {
			delete(o.byVolume, r.id())
		}
	}
	delete(o.pods, dir)
	delete(o.unread, dir)
}

// refresh makes sure that the index is filled. It is called before the index is asked.
func (m *Manager) refresh() error {
	if m.index.isComplete() {
		return nil
	}
	m.index.files.Lock()
	defer m.index.files.Unlock()
	if m.index.isComplete() { // by another one
		return nil
	}
	found, complete, err := m.scan()
	m.index.mu.Lock()
	defer m.index.mu.Unlock()
	if err == nil || !m.index.filled { // a part is less than what was known before
		m.index.onDisk, m.index.filled, m.index.complete = found, err == nil, complete && err == nil
	}
	return err
}

func (x *index) isComplete() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.complete
}

// markIncomplete makes the index incomplete: the disk holds something else.
func (x *index) markIncomplete() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.complete = false
}

// recordGone is told that a directory holds no record. If the index has one, somebody else
// has removed it.
func (x *index) recordGone(dir string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(dir)
}

// change changes a file, and then what the index says of it.
func (x *index) change(file func() error, entry func()) error {
	x.files.RLock()
	defer x.files.RUnlock()
	if err := file(); err != nil {
		x.markIncomplete() // the file may be the old one, or the new one
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	entry()
	return nil
}

// save writes the record of a pod's volume down.
func (m *Manager) save(dir string, r record) error {
	return m.index.change(func() error { return r.write(dir) }, func() { m.index.put(dir, r) })
}

// saveCopy writes the other record down, that of all pods that have the volume.
func (m *Manager) saveCopy(dir string, r record) error {
	r.Device = ""
	return m.index.change(func() error { return r.write(dir) }, func() {
		r.Staging = m.stagingBeside(dir)
		m.index.copies[dir] = r
		delete(m.index.lost, dir)
	})
}

// remove removes the record of a pod's volume.
func (m *Manager) remove(dir string) error {
	return m.index.change(func() error { return removeRecord(dir) }, func() { m.index.forget(dir) })
}

// removeCopy removes the other record of a volume.
func (m *Manager) removeCopy(dir string) error {
	return m.index.change(func() error { return removeRecord(dir) }, func() {
		delete(m.index.copies, dir)
		delete(m.index.lost, dir)
	})
}

// others returns the records of the pods that have a volume, by directory, but for the one
// in directory but.
func (x *index) others(v volumeID, but string) map[string]record {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[string]record{}
	for dir := range x.byVolume[v] {
		if dir != but {
			out[dir] = x.pods[dir]
		}
	}
	return out
}

// claimed tells whether a pod has a volume, or may have it, other than the one in directory
// but. A pod of whose volume nothing is known may have one that is named alike there. A
// name that is not known may be any.
func (x *index) claimed(r record, but string) bool {
	if len(x.others(r.id(), but)) > 0 {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for unread := range x.unread {
		base := filepath.Base(unread)
		if unread != but && (r.Name == "" || base == r.Name || base == volumekind.CSI.Dir()) {
			return true
		}
	}
	return false
}

// countVolumes returns how many volumes of a driver pods have, but for those that were made
// for one pod alone.
func (x *index) countVolumes(driver, but string) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	var n int64
	for v, dirs := range x.byVolume {
		if v.driver != driver {
			continue
		}
		for dir := range dirs {
			if dir != but && x.pods[dir].Mode != storagev1.VolumeLifecycleEphemeral {
				n++
				break
			}
		}
	}
	return n
}

// attached adds the volumes to inUse that pods have and a cluster attaches. It returns the
// other records of further ones, which are in use if they are staged, and whether the index
// knows all volumes.
func (x *index) attached(inUse map[v1.UniqueVolumeName]bool) (copies map[string]record, all bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range x.pods {
		if r.attached() {
			inUse[r.id().uniqueName()] = true
		}
	}
	copies = map[string]record{}
	for dir, r := range x.copies {
		if r.attached() && !inUse[r.id().uniqueName()] {
			copies[dir] = r
		}
	}
	return copies, len(x.unread) == 0 && len(x.lost) == 0
}

// allCopies returns the other records, by directory.
func (x *index) allCopies() map[string]record {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.copies)
}

// lostDirs returns the directories of what is staged and not known, sorted.
func (x *index) lostDirs() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.lost))
}

// dirs returns the directories of all volumes that pods have, also of those that are not known.
func (x *index) dirs() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(x.pods)), maps.Keys(x.unread))
}

// stagingBeside is where the volume is staged whose other record lies in a directory.
func (m *Manager) stagingBeside(copyDir string) string {
	if m.isDeviceCopy(copyDir) {
		return m.deviceStaging(filepath.Base(filepath.Dir(copyDir)))
	}
	return filepath.Join(copyDir, stagingName)
}

func (m *Manager) isDeviceCopy(copyDir string) bool {
	return strings.HasPrefix(copyDir, m.devicesDir()+string(filepath.Separator))
}

// isStaged tells whether the volume is staged whose other record lies in a directory. What
// is mounted for a device only the driver knows: it is enough that its place is there.
func (m *Manager) isStaged(copyDir string) bool {
	place := m.stagingBeside(copyDir)
	if m.isDeviceCopy(copyDir) {
		_, err := os.Lstat(place)
		return !errors.Is(err, fs.ErrNotExist)
	}
	mounted, err := m.IsMount(place)
	return err != nil || mounted // a file system that is broken is mounted, too
}
