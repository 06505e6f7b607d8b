package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/host/mounts"
	"berth/internal/host/roots"
	"berth/internal/lib/run"
)

const (
	busyInterval = 50 * time.Millisecond
	busyTimeout  = 2 * time.Second
)

// unmountAll unmounts the mounts of the runtime and of pods in the folders of a root. A
// mount on root itself or on one of its folders is the user's: a disk for the images,
// for example.
func unmountAll(ctx context.Context, owner roots.Owner) error {
	root := owner.Root()
	// A mount may hide another mount on the same path, so list again until none is left.
	for range 10 {
		points, err := mountsInFolders(root)
		if err != nil || len(points) == 0 {
			return err
		}
		var errs []error
		for _, p := range points {
			errs = append(errs, unmount(ctx, p))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return fmt.Errorf("unmount below %s: new mounts keep appearing", root)
}

// unmount waits a moment for processes that still use the mount. Then it detaches the
// mount (MNT_DETACH), and the kernel unmounts it when the last process has left.
func unmount(ctx context.Context, path string) error {
	deadline := time.Now().Add(busyTimeout)
	for {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
		if time.Now().After(deadline) || run.Sleep(ctx, busyInterval) != nil {
			break
		}
	}
	if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

func mountsInFolders(root string) ([]string, error) {
	folders, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	table, err := mounts.Read()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range folders {
		found, err := pointsBelow(table, filepath.Join(root, f.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// mountsBelow returns the mount points below a directory, the deepest first.
func mountsBelow(dir string) ([]string, error) {
	table, err := mounts.Read()
	if err != nil {
		return nil, err
	}
	return pointsBelow(table, dir)
}

func pointsBelow(table mounts.Table, dir string) ([]string, error) {
	dir, err := filepath.EvalSymlinks(dir) // as the kernel names them
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var points []string
	for _, m := range table.Below(dir) {
		points = append(points, m.Mountpoint)
	}
	return points, nil
}
