package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"berth/internal/host/proc"
)

// Occupied reports whether any process is in a cgroup or below it.
func (t *Tree) Occupied(path string) (bool, error) {
	occupied := false
	err := t.each(path, func(_ hierarchy, dir string) error {
		pids, err := processes(dir)
		occupied = occupied || len(pids) > 0
		return err
	})
	return occupied, err
}

// OccupiedName reports whether any process is in a cgroup of that name or below it, whichever driver made it.
func (t *Tree) OccupiedName(name string) (bool, error) {
	for _, d := range drivers {
		if occupied, err := t.Occupied(d.Path(name)); occupied || err != nil {
			return occupied, err
		}
	}
	return false, nil
}

// kill sends SIGKILL to every process in a cgroup and below it, and returns them. It does not wait for
// their end.
func (t *Tree) kill(path string) ([]int, error) {
	var killed []int
	err := t.each(path, func(h hierarchy, dir string) error {
		pids, err := processes(dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := thaw(h, dir); err != nil {
			return err
		}
		if h.v2 { // all at once, so that none can fork meanwhile
			err := writeFile(filepath.Join(dir, "cgroup.kill"), "1")
			if err == nil {
				killed = append(killed, pids...)
				return nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("kill what is in a cgroup: %w", err)
			}
		}
		ended, err := proc.KillAll(func() ([]int, error) { return processes(dir) })
		killed = append(killed, ended...)
		if err != nil {
			return fmt.Errorf("end the processes of cgroup %s, which is to be removed: %w", path, err)
		}
		return nil
	})
	slices.Sort(killed)
	return slices.Compact(killed), err
}

// thaw unfreezes a cgroup and those below it, since a frozen process handles no signal.
func thaw(h hierarchy, dir string) error {
	name, value := "cgroup.freeze", "0"
	switch {
	case h.v2:
	case slices.Contains(h.controllers, "freezer"):
		name, value = "freezer.state", "THAWED"
	default:
		return nil
	}
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return ignoreGone(err)
		}
		return ignoreGone(writeFile(filepath.Join(at, name), value))
	})
}

// processes returns the processes in a cgroup and below it.
func processes(dir string) ([]int, error) {
	var out []int
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return ignoreGone(err)
		}
		text, err := os.ReadFile(filepath.Join(at, "cgroup.procs"))
		if errors.Is(err, syscall.EOPNOTSUPP) { // it holds threads, whose processes are listed above it
			return nil
		}
		if err != nil {
			return ignoreGone(err)
		}
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				out = append(out, pid)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the processes of a cgroup: %w", err)
	}
	return out, nil
}

// ignoreGone returns nil for the error about a cgroup that was removed meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
