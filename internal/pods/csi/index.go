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

// index holds the content of all records in memory: to mount a volume for one pod, the records of
// others need not be read.
//
// It is filled by a scan of the disk when it is first needed, and updated together with the files, see
// save and remove. An unreadable record, a failed write, or a device that is staged without a copy of
// its record makes the index incomplete: then the disk is scanned each time, since nothing reports
// when such a file is repaired or removed.
type index struct {
	files sync.RWMutex // held for reading while one record changes, for writing while the disk is scanned

	mu       sync.Mutex
	filled   bool // the disk was scanned without an error
	complete bool // the disk need not be scanned again
	onDisk
}

// onDisk is the content of all records, by the directory of the record.
type onDisk struct {
	pods     map[string]record
	byVolume map[volumeID]map[string]bool // directories in pods, by volume
	copies   map[string]record            // copies of records beside staging paths; Staging is that path
	unread   map[string]bool              // directories in pods with volumes, without a readable record
	lost     map[string]bool              // directories of staged volumes, without a readable copy
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

// refresh fills the index, or scans again if it is incomplete. It is called before each use of the
// index.
func (m *Manager) refresh() error {
	if m.index.isComplete() {
		return nil
	}
	m.index.files.Lock()
	defer m.index.files.Unlock()
	if m.index.isComplete() { // by another goroutine
		return nil
	}
	found, complete, err := m.scan()
	m.index.mu.Lock()
	defer m.index.mu.Unlock()
	if err == nil || !m.index.filled { // else the index from before is better than a part
		m.index.onDisk, m.index.filled, m.index.complete = found, err == nil, complete && err == nil
	}
	return err
}

func (x *index) isComplete() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.complete
}

// markIncomplete says that the disk may differ from the index.
func (x *index) markIncomplete() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.complete = false
}

// recordGone removes the entry of a directory without a record, which was removed by something else.
func (x *index) recordGone(dir string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(dir)
}

// change writes or removes a file, and then updates the index.
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

// save writes the record of a volume in a pod.
func (m *Manager) save(dir string, r record) error {
	return m.index.change(func() error { return r.write(dir) }, func() { m.index.put(dir, r) })
}

// saveCopy writes the copy of a record beside the staging path, for all pods that have the volume.
func (m *Manager) saveCopy(dir string, r record) error {
	r.Device = ""
	return m.index.change(func() error { return r.write(dir) }, func() {
		r.Staging = m.stagingBeside(dir)
		m.index.copies[dir] = r
		delete(m.index.lost, dir)
	})
}

// remove removes the record of a volume in a pod.
func (m *Manager) remove(dir string) error {
	return m.index.change(func() error { return removeRecord(dir) }, func() { m.index.forget(dir) })
}

// removeCopy removes the copy of a record.
func (m *Manager) removeCopy(dir string) error {
	return m.index.change(func() error { return removeRecord(dir) }, func() {
		delete(m.index.copies, dir)
		delete(m.index.lost, dir)
	})
}

// recordIn returns the record of the volume in a directory of a pod.
func (x *index) recordIn(dir string) (record, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, ok := x.pods[dir]
	return r, ok
}

// others returns the records of a volume in pods, by directory, without the one in directory but.
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

// claimed reports whether a pod has the volume of r, or may have it, other than in directory but. An
// unreadable record may be that of any volume with the same directory name.
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

// countVolumes returns the number of volumes of a driver that pods have, without ephemeral ones.
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

// attached adds the attachable volumes of pods to inUse. It returns the copies of records of further
// volumes, which are in use if they are staged, and whether the index knows all volumes.
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

// allCopies returns the copies of records, by directory.
func (x *index) allCopies() map[string]record {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.copies)
}

// lostDirs returns the directories of staged volumes without a readable record, sorted.
func (x *index) lostDirs() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.lost))
}

// dirs returns the directories of all volumes in pods, also of those without a readable record.
func (x *index) dirs() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(x.pods)), maps.Keys(x.unread))
}

// stagingBeside returns the staging path of the volume whose copy of the record is in copyDir.
func (m *Manager) stagingBeside(copyDir string) string {
	if m.isDeviceCopy(copyDir) {
		return m.deviceStaging(filepath.Base(filepath.Dir(copyDir)))
	}
	return filepath.Join(copyDir, stagingName)
}

func (m *Manager) isDeviceCopy(copyDir string) bool {
	return strings.HasPrefix(copyDir, m.devicesDir()+string(filepath.Separator))
}

// isStaged reports whether the volume is staged whose copy of the record is in copyDir. Only the driver
// knows how a device is staged: its staging path has to exist.
func (m *Manager) isStaged(copyDir string) bool {
	place := m.stagingBeside(copyDir)
	if m.isDeviceCopy(copyDir) {
		_, err := os.Lstat(place)
		return !errors.Is(err, fs.ErrNotExist)
	}
	mounted, err := m.IsMount(place)
	return err != nil || mounted // a broken file system is mounted, too
}
