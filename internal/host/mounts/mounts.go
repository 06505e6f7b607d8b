// Package mounts reads the mount table of the kernel (/proc/self/mountinfo), and answers what is
// mounted where. It never touches a mounted file system, so one that hangs can't block it.
//
// The table has thousands of lines on a machine with hundreds of pods: nothing that is done for each
// pod may read it.
package mounts

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mount is one line of the table.
type Mount = mountinfo.Info

// Table is the mount table at one moment, in the order of the kernel: of two mounts on one path, the
// later one hides the other.
type Table []*Mount

// Read reads the mount table of this process.
func Read() (Table, error) {
	found, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return found, nil
}

// Parse reads a mount table in the format of /proc/self/mountinfo.
func Parse(r io.Reader) (Table, error) {
	found, err := mountinfo.GetMountsFromReader(r, nil)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return found, nil
}

// Below returns the mounts whose mount points are below a directory, the deepest first. A mount on the
// directory itself is not among them. The directory has to be free of symbolic links.
func (t Table) Below(dir string) Table {
	var below Table
	for _, m := range t {
		if m.Mountpoint != dir && Contains(dir, m.Mountpoint) {
			below = append(below, m)
		}
	}
	slices.SortStableFunc(below, func(a, b *Mount) int {
		return cmp.Compare(strings.Count(b.Mountpoint, "/"), strings.Count(a.Mountpoint, "/"))
	})
	return below
}

// Under returns the mount that a path is on, or nil if the table does not have it. The path has to be
// free of symbolic links.
func (t Table) Under(path string) *Mount {
	var under *Mount
	for _, m := range t {
		if Contains(m.Mountpoint, path) && (under == nil || len(m.Mountpoint) >= len(under.Mountpoint)) {
			under = m
		}
	}
	return under
}

// Contains reports whether a path is a directory or below it.
func Contains(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
