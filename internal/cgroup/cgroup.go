// Package cgroup finds and removes control groups that berth or its runtime made.
//
// A cgroup is named by its path from the top of the hierarchy, such as
// /berth/pod123. With cgroup v1 each controller has a hierarchy of its own, and the
// same path is removed from all of them; with v2 there is only one. Where they are
// mounted is read from the kernel.
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
)

// Tree is the cgroup hierarchies of a machine.
type Tree struct {
	mounts []string
}

// Open finds out where the hierarchies of this machine are mounted.
func Open() (*Tree, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	mounts := parseMounts(string(info))
	if len(mounts) == 0 {
		return nil, errors.New("find cgroups: none are mounted on this machine")
	}
	return At(mounts...), nil
}

// At is for hierarchies that are mounted at known places.
func At(mounts ...string) *Tree { return &Tree{mounts: mounts} }

// parseMounts returns the mount points of both versions.
func parseMounts(mountinfo string) []string {
	var mounts []string
	for line := range strings.Lines(mountinfo) {
		// 36 35 98:0 /root /mount/point options ... - type source options
		where, what, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(where), strings.Fields(what)
		if !ok || len(fields) < 5 || len(kind) < 1 || (kind[0] != "cgroup" && kind[0] != "cgroup2") {
			continue
		}
		if !slices.Contains(mounts, fields[4]) {
			mounts = append(mounts, fields[4])
		}
	}
	return mounts
}

const (
	busyPoll  = 20 * time.Millisecond
	busyLimit = 2 * time.Second
)

// Remove removes a cgroup and all below it from every hierarchy. One that is not there
// is fine. A cgroup that has just lost its last process can be busy for a
// moment, and is tried again; one that has processes is an error in the end.
func (t *Tree) Remove(ctx context.Context, path string) error {
	return t.each(path, func(dir string) error { return removeTree(ctx, dir) })
}

// Children returns the names of the cgroups right below one, in any hierarchy.
func (t *Tree) Children(path string) ([]string, error) {
	found := map[string]bool{}
	for _, mount := range t.mounts {
		entries, err := os.ReadDir(filepath.Join(mount, path))
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

// RemoveIfEmpty removes a cgroup that has neither processes nor other cgroups in it,
// and leaves one that has.
func (t *Tree) RemoveIfEmpty(path string) error {
	return t.each(path, func(dir string) error {
		err := removeDir(dir)
		if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY) {
			return nil
		}
		return err
	})
}

func (t *Tree) each(path string, f func(dir string) error) error {
	if err := checkPath(path); err != nil {
		return err
	}
	var errs []error
	for _, mount := range t.mounts {
		if err := f(filepath.Join(mount, path)); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
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
		return fmt.Errorf("cgroup path %q is the whole hierarchy: it is not removed", path)
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
	return retryBusy(ctx, func() error { return removeDir(dir) })
}

func retryBusy(ctx context.Context, remove func() error) error {
	deadline := time.Now().Add(busyLimit)
	for {
		err := remove()
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(busyPoll):
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
