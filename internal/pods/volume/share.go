package volume

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/host/mounts"
)

// Mount propagation (mountPropagation of a container) needs a shared mount below the directory of
// pods, and below that of plugins, where CSI drivers stage volumes. Where / is a private mount,
// ShareMounts mounts such a directory on itself. The mount stays while the agent is not running, since
// containers are peers of it.

// ShareMounts makes sure that a directory is on a shared mount.
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
		return fmt.Errorf("share mounts in %s: the mount table does not have it", dir)
	case strings.Contains(under.Optional, "shared:"):
		return nil
	case under.Mountpoint == dir: // a mount of the administrator, or of ShareMounts, that is not shared yet
	case len(table.Below(dir)) > 0: // a mount on dir would hide them
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

// UnshareMounts unmounts what ShareMounts mounted, once there are no pods.
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

// onItself reports whether a mount shows the same directory as its mount point.
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
