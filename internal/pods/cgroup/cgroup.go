// Package cgroup makes, limits and removes the cgroups of pods, and reads what the kernel counts for
// any cgroup.
//
// Pods knows cgroups by their names, such as /berth/burstable/pod123, and Tree by their paths from the top of the
// hierarchy. The cgroup driver of the container runtime decides on the path: see package cgroupname. With cgroup v1 each
// controller has a hierarchy of its own, and the same path is removed from all of them; with v2 there is only one. Where
// they are mounted is read from the kernel.
//
// With the driver systemd, cgroups are slices: systemd makes and removes them (package systemd), and gets each limit that it
// has a property for, since it would reset the file. All limits are written to files, too, which are more exact, and
// have what systemd does not know (huge pages).
//
// Creation and limits are not left to github.com/opencontainers/cgroups (which would add 0.4 MB to bin/berth, with
// its systemd driver): its managers stop at the first controller that fails or is missing, limit reservations of
// huge pages, too, and work below /sys/fs/cgroup alone, so that no test without cgroup v2 could cover that half.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/internal/host/mounts"
)

// Tree is the set of cgroup hierarchies of a machine.
type Tree struct {
	hierarchies []hierarchy
}

// hierarchy is one mounted hierarchy.
type hierarchy struct {
	mount       string
	v2          bool
	controllers []string // of v1; those of v2 are in its files
}

// Open finds the hierarchies of this machine in the mount table.
func Open() (*Tree, error) {
	table, err := mounts.Read()
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	found := hierarchiesIn(table)
	if len(found) == 0 {
		return nil, errors.New("find cgroups: none are mounted on this machine")
	}
	return &Tree{hierarchies: found}, nil
}

// V2 reports whether the machine has only the unified hierarchy.
func (t *Tree) V2() bool { return len(t.hierarchies) == 1 && t.hierarchies[0].v2 }

// hierarchiesIn returns the hierarchies of both versions.
func hierarchiesIn(table mounts.Table) []hierarchy {
	var out []hierarchy
	for _, m := range table {
		if m.FSType != "cgroup" && m.FSType != "cgroup2" {
			continue
		}
		h := hierarchy{mount: m.Mountpoint, v2: m.FSType == "cgroup2"}
		if !h.v2 {
			h.controllers = strings.Split(m.VFSOptions, ",") // and mount options, which have other names
		}
		if !slices.ContainsFunc(out, func(other hierarchy) bool { return other.mount == h.mount }) {
			out = append(out, h)
		}
	}
	return out
}

const (
	busyInterval = 20 * time.Millisecond
	busyTimeout  = 2 * time.Second
)

// remove removes a cgroup and all below it from every hierarchy. It is fine if there is none. A cgroup
// whose last process has just ended can be busy for a moment, and is retried.
func (t *Tree) remove(ctx context.Context, path string) error {
	return t.each(path, func(_ hierarchy, dir string) error { return removeTree(ctx, dir) })
}

// Children returns the names of the direct children of a cgroup, in any hierarchy.
func (t *Tree) Children(path string) ([]string, error) {
	found := map[string]bool{}
	for _, h := range t.hierarchies {
		entries, err := os.ReadDir(filepath.Join(h.mount, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() {
				found[e.Name()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// exists reports whether a cgroup is there. Of v1, the hierarchies of processors and memory count: others may have been
// mounted after the cgroup was made.
func (t *Tree) exists(path string) bool {
	counted := slices.DeleteFunc(slices.Clone(t.hierarchies), func(h hierarchy) bool {
		return !slices.Contains(h.controllers, "cpu") && !slices.Contains(h.controllers, "memory")
	})
	if len(counted) == 0 {
		counted = t.hierarchies
	}
	for _, h := range counted {
		if _, err := os.Stat(filepath.Join(h.mount, path)); errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// existsAnywhere reports whether a cgroup is there in any hierarchy.
func (t *Tree) existsAnywhere(path string) bool {
	return slices.ContainsFunc(t.hierarchies, func(h hierarchy) bool {
		_, err := os.Stat(filepath.Join(h.mount, path))
		return err == nil
	})
}

// removeIfEmpty removes a cgroup unless it has processes or children.
func (t *Tree) removeIfEmpty(path string) error {
	return t.each(path, func(_ hierarchy, dir string) error {
		err := removeDir(dir)
		if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY) {
			return nil
		}
		return err
	})
}

func (t *Tree) each(path string, f func(h hierarchy, dir string) error) error {
	if err := checkPath(path); err != nil {
		return err
	}
	var errs []error
	for _, h := range t.hierarchies {
		if err := f(h, filepath.Join(h.mount, path)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkPath returns an error unless a path names a cgroup below the root of the hierarchy.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
		return fmt.Errorf("cgroup path %q must begin with / and have no .. in it", path)
	}
	if filepath.Clean(path) == "/" {
		return fmt.Errorf("cgroup path %q is the whole hierarchy: it is not for pods", path)
	}
	return nil
}

// removeTree removes children first, as the kernel demands.
func removeTree(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() { // the kernel removes the files with their directory
			if err := removeTree(ctx, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := retryBusy(ctx, func() error { return removeDir(dir) }); err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}

func retryBusy(ctx context.Context, remove func() error) error {
	deadline := time.Now().Add(busyTimeout)
	for {
		err := remove()
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(busyInterval):
		}
	}
}

// removeDir calls rmdir(2) alone: os.Remove would try unlink(2) first.
func removeDir(dir string) error {
	err := syscall.Rmdir(dir)
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
