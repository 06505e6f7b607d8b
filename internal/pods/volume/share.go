package volume

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/host/mounts"
)

// What is mounted in a volume travels between the machine and those containers that ask
// for it (mountPropagation) only if the directory of pods is on a shared mount, and that of
// plugins, where drivers mount what pods share. Where / is private, such a directory is
// made a mount of its own, on itself. It stays while the agent is away, since containers
// have a part in it.

// ShareMounts lets mounts in a directory travel.
func ShareMounts(given string) error {
	dir, err := realDir(given)
	if err != nil {
		return fmt.Errorf("share mounts in %s: %w", given, err)
	}
	table, err := mounts.Read()
	if err != nil {
		return fmt.Errorf("share mounts in %s: %w", dir, err)
	}
	under := table.Under(dir)
	switch {
	case under == nil:
		return fmt.Errorf("share mounts in %s: the mount table does not tell what it is on", dir)
	case strings.Contains(under.Optional, "shared:"):
		return nil
	case under.Mountpoint == dir: // somebody's disk, or ours, not shared yet
	case len(table.Below(dir)) > 0: // they would be hidden
		return fmt.Errorf("share mounts in %s: something is mounted there already: it will be done at a start without that", dir)
	default:
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on itself: %w", dir, err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return errors.Join(fmt.Errorf("share mounts in %s: %w", dir, err), UnshareMounts(dir))
	}
	return nil
}

// UnshareMounts undoes ShareMounts, once there are no pods. It is fine if nothing is to
// be undone.
func UnshareMounts(given string) error {
	dir, err := filepath.EvalSymlinks(given)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unshare mounts in %s: %w", given, err)
	}
	table, err := mounts.Read()
	if err != nil {
		return fmt.Errorf("unshare mounts in %s: %w", dir, err)
	}
	under := table.Under(dir)
	if under == nil || under.Mountpoint != dir || !onItself(table, under) {
		return nil
	}
	if err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s, which is mounted on itself: %w", dir, err)
	}
	return nil
}

// onItself tells whether a mount shows just what would be there without it.
func onItself(table mounts.Table, m *mounts.Mount) bool {
	for _, on := range table {
		if on.ID != m.Parent {
			continue
		}
		rest, err := filepath.Rel(on.Mountpoint, m.Mountpoint)
		return err == nil && on.Major == m.Major && on.Minor == m.Minor && filepath.Join(on.Root, rest) == m.Root
	}
	return false
}
