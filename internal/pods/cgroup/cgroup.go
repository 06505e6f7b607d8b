// Package cgroup makes, limits and removes the cgroups of pods, and reads what the kernel counts for
// any cgroup.
//
// A cgroup is named by its path from the top of the hierarchy, such as
// /berth/pod123. With cgroup v1 each controller has a hierarchy of its own, and the
// same path is removed from all of them; with v2 there is only one. Where they are
// mounted is read from the kernel.
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

// Tree is the cgroup hierarchies of a machine.
type Tree struct {
	hierarchies []hierarchy
}

// hierarchy is one of them.
type hierarchy struct {
	mount       string
	v2          bool
	controllers []string // of v1; those of v2 are asked for where they are needed
}

// Open finds out where the hierarchies of this machine are mounted.
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

// V2 tells whether the machine has the one hierarchy with all controllers.
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
			h.controllers = strings.Split(m.VFSOptions, ",") // and options, which are called otherwise
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

// remove removes a cgroup and all below it from every hierarchy. One that is not there
// is fine. A cgroup that has just lost its last process can be busy for a
// moment, and is tried again; one that has processes is an error in the end.
func (t *Tree) remove(ctx context.Context, path string) error {
	return t.each(path, func(_ hierarchy, dir string) error { return removeTree(ctx, dir) })
}

// Children returns the names of the cgroups right below one, in any hierarchy.
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

// removeIfEmpty removes a cgroup that has neither processes nor other cgroups in it,
// and leaves one that has.
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

// checkPath refuses whatever could name more than a cgroup of ours.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
		return fmt.Errorf("cgroup path %q must begin with / and have no .. in it", path)
	}
	if filepath.Clean(path) == "/" {
		return fmt.Errorf("cgroup path %q is the whole hierarchy: it is not for pods", path)
	}
	return nil
}

// removeTree removes the deepest first, as the kernel demands.
func removeTree(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() { // the files are the kernel's, and go with their directory
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

// removeDir uses rmdir alone: os.Remove would try to unlink first.
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
