package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
	"berth/internal/lib/volumekind"
)

// scanResult collects the records that a scan of the disk finds.
type scanResult struct {
	onDisk
	warned map[string]bool // directories with unreadable records, which are logged
	noCopy []string        // names of devices that are staged without a copy of their record
}

// scan reads all records. An unreadable one is logged once, and makes the index incomplete.
func (m *Manager) scan() (all onDisk, complete bool, err error) {
	out := scanResult{onDisk: newOnDisk(), warned: map[string]bool{}}
	err = m.scanStaged(&out)
	published, e := m.scanDevices(&out)
	err = errors.Join(err, e, m.scanPods(&out))
	m.matchDevices(&out, published)
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.warned, func(dir string, _ bool) bool { return !out.warned[dir] })
	return out.onDisk, len(out.warned) == 0 && len(out.noCopy) == 0, err
}

func (m *Manager) scanPods(out *scanResult) error {
	pods, err := m.listDirs(m.PodsDir)
	if err != nil {
		return err
	}
	for _, uid := range pods {
		volumes := filepath.Join(m.PodsDir, uid, "volumes", volumekind.CSI.Dir())
		all, err := m.listDirs(volumes)
		if err != nil {
			out.unread[volumes] = true
			m.warn(out, volumes, unknownVolume, err)
		}
		for _, name := range all {
			m.scanPodVolume(out, filepath.Join(volumes, name))
		}
	}
	return nil
}

// scanPodVolume reads the record of one volume of a pod.
func (m *Manager) scanPodVolume(out *scanResult, dir string) {
	r, err := m.readRecord(dir)
	if err == nil {
		if r != nil {
			out.put(dir, *r)
		}
		return
	}
	if r := m.restoreRecord(dir); r != nil {
		out.put(dir, *r)
		m.warn(out, dir, restoredVolume, err)
		return
	}
	out.unread[dir] = true
	m.warn(out, dir, unknownVolume, err)
}

func (m *Manager) scanStaged(out *scanResult) error {
	return m.eachCopy(func(dir string) {
		r, err := m.readRecord(dir)
		switch {
		case err != nil && m.isStaged(dir):
			out.lost[dir] = true
			m.warn(out, dir, lostVolume, err)
		case r != nil:
			r.Staging = m.stagingBeside(dir)
			out.copies[dir] = *r
		}
	}, func(dir string, err error) {
		out.lost[dir] = true
		m.warn(out, dir, lostVolume, err)
	})
}

// eachCopy calls do for each directory with a copy of a record, except for devices.
func (m *Manager) eachCopy(do func(dir string), broken func(dir string, err error)) error {
	drivers, err := m.listDirs(m.stagingDir())
	if err != nil {
		return err
	}
	for _, driver := range drivers {
		if driver == devicesName {
			continue
		}
		of := filepath.Join(m.stagingDir(), driver)
		volumes, err := m.listDirs(of)
		if err != nil {
			broken(of, err)
		}
		for _, volume := range volumes {
			do(filepath.Join(of, volume))
		}
	}
	return nil
}

// scanDevices finds the staged devices, and returns the pods of published devices, by target path.
func (m *Manager) scanDevices(out *scanResult) (map[string]pod.UID, error) {
	staged, err := m.listDirs(m.stagedDevices())
	if err != nil {
		return nil, err
	}
	for _, name := range staged {
		dir := m.deviceCopyDir(name)
		r, err := m.readRecord(dir)
		switch {
		case err != nil:
			out.lost[dir] = true
			m.warn(out, dir, lostVolume, err)
		case r == nil:
			out.noCopy = append(out.noCopy, name)
		default:
			r.Staging = m.stagingBeside(dir)
			out.copies[dir] = *r
		}
	}
	published := map[string]pod.UID{}
	all, err := m.listDirs(m.publishedDevices())
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		err := podfile.Each(m.publishedDevices(), name, func(p fs.DirEntry) error {
			published[filepath.Join(m.publishedDevices(), name, p.Name())] = pod.UID(p.Name())
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return published, fmt.Errorf("look for CSI volumes: %w", err)
		}
	}
	return published, nil
}

// matchDevices finds devices without a record in a pod, which an earlier kubelet may have left.
func (m *Manager) matchDevices(out *scanResult, published map[string]pod.UID) {
	known := map[string]bool{}
	for _, r := range out.pods {
		if r.Device != "" {
			known[r.Name] = true
		}
	}
	for _, name := range out.noCopy {
		if dir := m.deviceCopyDir(name); !known[name] {
			out.lost[dir] = true
			m.warn(out, dir, lostVolume, fmt.Errorf("nothing is written down of %s", m.deviceStaging(name)))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(published)) {
		dir := m.volumeDir(published[path], filepath.Base(filepath.Dir(path)))
		if _, ok := out.pods[dir]; ok || out.unread[dir] {
			continue
		}
		if _, err := os.Lstat(path); err == nil { // it was not unpublished meanwhile
			out.unread[dir] = true
			m.warn(out, dir, unknownVolume, fmt.Errorf("nothing is written down of %s", path))
		}
	}
}

// Messages that are logged once for each directory.
const (
	restoredVolume = "what is written down of a CSI volume can't be read; what else is known of it will do"
	unknownVolume  = "a CSI volume is not known any more: it is made anew if its pod runs, and unmounted without its driver if the pod goes"
	lostVolume     = "a CSI volume is staged that is not known any more: it stays staged until a pod has it again; else undo it by hand, and remove its directory"
)

func (m *Manager) warn(out *scanResult, dir, what string, err error) {
	out.warned[dir] = true
	m.warnOnce(dir, what, err)
}

func (m *Manager) warnOnce(dir, what string, err error) {
	m.mu.Lock()
	warned := m.warned[dir]
	m.warned[dir] = true
	m.mu.Unlock()
	if !warned {
		m.Log.Warn(what, "dir", dir, "err", err)
	}
}

// wasWarned reports whether a message about a directory was logged.
func (m *Manager) wasWarned(dir string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.warned[dir]
}

// listDirs returns the names of the directories in a directory, which need not exist.
func listDirs(dir string) ([]string, error) {
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
