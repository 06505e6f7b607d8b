package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"berth/internal/pod"
	"berth/internal/podfile"
)

// onDisk is what is written down of all volumes, by the directory in which it is.
type onDisk struct {
	pods   map[string]record
	staged map[string]record // of those that are staged: their other records
	unread map[string]bool   // directories of pods that have volumes, and tell nothing of them
	lost   map[string]bool   // those of other records of what is staged, that tell nothing of it
	told   map[string]bool   // what there was something to tell of
}

// look reads the records, but for that in one directory. What can't be read is told
// once, and holds nothing up.
func (m *Manager) look(but string) (onDisk, error) {
	out := onDisk{
		pods: map[string]record{}, staged: map[string]record{},
		unread: map[string]bool{}, lost: map[string]bool{}, told: map[string]bool{},
	}
	// What is staged and published comes first: its pod was written down before.
	err := m.lookStaged(&out)
	devices, e := m.lookDevices(&out)
	err = errors.Join(err, e, m.lookPods(&out, but))
	m.match(&out, devices, but)
	m.mu.Lock()
	defer m.mu.Unlock()
	for dir := range m.unread {
		if !out.told[dir] && dir != but {
			delete(m.unread, dir)
		}
	}
	return out, err
}

func (m *Manager) lookPods(out *onDisk, but string) error {
	pods, err := names(m.PodsDir)
	if err != nil {
		return err
	}
	for _, uid := range pods {
		volumes := filepath.Join(m.PodsDir, uid, "volumes", VolumesDir)
		all, err := names(volumes)
		if err != nil {
			out.unread[volumes] = true
			m.tell(out, volumes, unknownVolume, err)
		}
		for _, name := range all {
			if dir := filepath.Join(volumes, name); dir != but {
				m.lookPod(out, dir)
			}
		}
	}
	return nil
}

// lookPod reads the record of one volume of a pod.
func (m *Manager) lookPod(out *onDisk, dir string) {
	r, err := readRecord(dir)
	if err == nil {
		if r != nil {
			out.pods[dir] = *r
		}
		return
	}
	if r := m.recall(dir); r != nil {
		out.pods[dir] = *r
		m.tell(out, dir, recalledVolume, err)
		return
	}
	out.unread[dir] = true
	m.tell(out, dir, unknownVolume, err)
}

func (m *Manager) lookStaged(out *onDisk) error {
	return m.eachCopy(func(dir string) {
		// A file system that is broken is mounted, too.
		if mounted, err := m.IsMount(filepath.Join(dir, stagedAt)); err == nil && !mounted {
			return
		}
		r, err := readRecord(dir)
		switch {
		case err != nil:
			out.lost[dir] = true
			m.tell(out, dir, lostVolume, err)
		case r != nil:
			r.Staging = filepath.Join(dir, stagedAt)
			out.staged[dir] = *r
		}
	}, func(dir string, err error) {
		out.lost[dir] = true
		m.tell(out, dir, lostVolume, err)
	})
}

// eachCopy goes through the directories of other records, but for those of devices.
func (m *Manager) eachCopy(do func(dir string), broken func(dir string, err error)) error {
	drivers, err := names(m.stagingDir())
	if err != nil {
		return err
	}
	for _, driver := range drivers {
		if driver == devicesName {
			continue
		}
		of := filepath.Join(m.stagingDir(), driver)
		volumes, err := names(of)
		if err != nil {
			broken(of, err)
		}
		for _, volume := range volumes {
			do(filepath.Join(of, volume))
		}
	}
	return nil
}

// devices are those of which no other record tells.
type devices struct {
	staged    []string           // by name
	published map[string]pod.UID // by where
}

// lookDevices finds those that are staged. What is mounted there only the driver knows: it
// is enough that its place is there.
func (m *Manager) lookDevices(out *onDisk) (devices, error) {
	untold := devices{published: map[string]pod.UID{}}
	staged, err := names(m.stagedDevices())
	if err != nil {
		return untold, err
	}
	for _, name := range staged {
		dir := m.deviceCopyDir(name)
		r, err := readRecord(dir)
		switch {
		case err != nil:
			out.lost[dir] = true
			m.tell(out, dir, lostVolume, err)
		case r == nil:
			untold.staged = append(untold.staged, name)
		default:
			r.Staging = m.deviceStaging(name)
			out.staged[dir] = *r
		}
	}
	published, err := names(m.publishedDevices())
	if err != nil {
		return untold, err
	}
	for _, name := range published {
		err := podfile.Each(m.publishedDevices(), name, func(p fs.DirEntry) error {
			untold.published[filepath.Join(m.publishedDevices(), name, p.Name())] = pod.UID(p.Name())
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return untold, fmt.Errorf("look for CSI volumes: %w", err)
		}
	}
	return untold, nil
}

// match finds the devices of which no record of a pod tells either. A kubelet that was here
// before us leaves such ones.
func (m *Manager) match(out *onDisk, found devices, but string) {
	pods := maps.Clone(out.pods)
	if but != "" { // it is being mounted or unmounted: that is not lost
		if r, err := readRecord(but); err == nil && r != nil {
			pods[but] = *r
		}
	}
	known := map[string]bool{}
	for _, r := range pods {
		if r.Device != "" {
			known[r.Name] = true
		}
	}
	for _, name := range found.staged {
		if dir := m.deviceCopyDir(name); !known[name] {
			out.lost[dir] = true
			m.tell(out, dir, lostVolume, fmt.Errorf("nothing is written down of %s", m.deviceStaging(name)))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(found.published)) {
		dir := m.volumeDir(found.published[path], filepath.Base(filepath.Dir(path)))
		if _, ok := out.pods[dir]; ok || out.unread[dir] || dir == but {
			continue
		}
		if _, err := os.Lstat(path); err == nil { // it did not go just now
			out.unread[dir] = true
			m.tell(out, dir, unknownVolume, fmt.Errorf("nothing is written down of %s", path))
		}
	}
}

// What is told of volumes, once.
const (
	recalledVolume = "what is written down of a CSI volume can't be read; what else is known of it will do"
	unknownVolume  = "a CSI volume is not known any more: it is made anew if its pod runs, and unmounted without its driver if the pod goes"
	lostVolume     = "a CSI volume is staged that is not known any more: it stays staged until a pod has it again; else undo it by hand, and remove its directory"
)

func (m *Manager) tell(out *onDisk, dir, what string, err error) {
	out.told[dir] = true
	m.tellOnce(dir, what, err)
}

func (m *Manager) tellOnce(dir, what string, err error) {
	m.mu.Lock()
	told := m.unread[dir]
	m.unread[dir] = true
	m.mu.Unlock()
	if !told {
		m.Log.Warn(what, "dir", dir, "err", err)
	}
}

// isTold tells whether there was something to tell of a volume.
func (m *Manager) isTold(dir string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unread[dir]
}

// claimed tells whether a pod has a volume.
func (o onDisk) claimed(v volumeID) bool {
	for _, r := range o.pods {
		if r.id() == v {
			return true
		}
	}
	return false
}

// mayHave tells whether a pod of whose volume nothing is known may have one: it is named
// alike there. A name that is not known may be any.
func (o onDisk) mayHave(name string) bool {
	for unread := range o.unread {
		if base := filepath.Base(unread); name == "" || base == name || base == VolumesDir {
			return true
		}
	}
	return false
}

// names lists a directory, there or not.
func names(dir string) ([]string, error) {
	var out []string
	err := podfile.Each(dir, ".", func(e fs.DirEntry) error {
		if e.IsDir() {
			out = append(out, e.Name())
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for CSI volumes: %w", err)
	}
	return out, nil
}
