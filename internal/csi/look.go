package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// onDisk is what is written down of all volumes, by the directory in which it is.
type onDisk struct {
	pods   map[string]record
	staged map[string]record // of those that are mounted where they are staged
	unread map[string]bool   // records of pods, and of what is staged, that tell nothing
}

// look reads the records, but for that in one directory. One that can't be read is told
// once, and holds nothing up.
func (m *Manager) look(but string) (onDisk, error) {
	out := onDisk{pods: map[string]record{}, staged: map[string]record{}, unread: map[string]bool{}}
	// What is staged comes first: its pod was written down before.
	err := errors.Join(m.lookStaged(&out, but), m.lookPods(&out, but))
	m.mu.Lock()
	defer m.mu.Unlock()
	for dir := range m.unread {
		if !out.unread[dir] && dir != but {
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
			m.unreadable(out, volumes, err)
		}
		for _, name := range all {
			if dir := filepath.Join(volumes, name); dir != but {
				m.readInto(out.pods, out, dir)
			}
		}
	}
	return nil
}

func (m *Manager) lookStaged(out *onDisk, but string) error {
	drivers, err := names(m.stagingDir())
	if err != nil {
		return err
	}
	for _, driver := range drivers {
		volumes, err := names(filepath.Join(m.stagingDir(), driver))
		if err != nil {
			m.unreadable(out, filepath.Join(m.stagingDir(), driver), err)
		}
		for _, volume := range volumes {
			dir := filepath.Join(m.stagingDir(), driver, volume)
			// A file system that is broken is mounted, too.
			if mounted, err := m.IsMount(filepath.Join(dir, stagedAt)); (err != nil || mounted) && dir != but {
				m.readInto(out.staged, out, dir)
			}
		}
	}
	return nil
}

// readInto reads the record of one directory.
func (m *Manager) readInto(into map[string]record, out *onDisk, dir string) {
	r, err := readRecord(dir)
	switch {
	case err != nil:
		m.unreadable(out, dir, err)
	case r != nil:
		into[dir] = *r
	}
}

func (m *Manager) unreadable(out *onDisk, dir string, err error) {
	out.unread[dir] = true
	m.noteUnread(dir, err)
}

// noteUnread tells of a record that can't be read, once.
func (m *Manager) noteUnread(dir string, err error) {
	m.mu.Lock()
	told := m.unread[dir]
	m.unread[dir] = true
	m.mu.Unlock()
	if !told {
		m.Log.Warn("a CSI volume is not known any more: it is made anew if its pod runs, and unmounted without its driver if the pod goes", "err", err)
	}
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

// mayBeAnother tells whether a pod of whose volume nothing is known may have the one in
// the directory of another pod: it is named alike there.
func (o onDisk) mayBeAnother(dir string) bool {
	for unread := range o.unread {
		if dir != "" && filepath.Base(unread) == filepath.Base(dir) {
			return true
		}
	}
	return false
}

// names lists a directory, there or not.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for CSI volumes: %w", err)
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}
