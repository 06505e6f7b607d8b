package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/host/roots"
)

const (
	busyPoll  = 50 * time.Millisecond
	busyLimit = 2 * time.Second
)

// unmountAll unmounts what the runtime and the pods mounted in the folders of a root. A
// mount on root itself or on one of its folders is the user's: a disk for the images,
// for example.
func unmountAll(ctx context.Context, owner roots.Owner) error {
	root := owner.Root()
	// A mount may hide another one of the same place, so look until nothing is left.
	for range 10 {
		mounts, err := mountsInFolders(root)
		if err != nil || len(mounts) == 0 {
			return err
		}
		var errs []error
		for _, m := range mounts {
			errs = append(errs, unmount(ctx, m))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return fmt.Errorf("unmount below %s: new mounts keep appearing", root)
}

// unmount waits a moment for those that still use the mount to go away. Then it takes
// the mount out of the tree, and the kernel ends it when the last one has left.
func unmount(ctx context.Context, path string) error {
	deadline := time.Now().Add(busyLimit)
	for {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
		if time.Now().After(deadline) || wait(ctx, busyPoll) != nil {
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
	var all []string
	for _, f := range folders {
		mounts, err := mountsBelow(filepath.Join(root, f.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, mounts...)
	}
	return all, nil
}

// mountsBelow returns the mount points within dir, the deepest first.
func mountsBelow(dir string) ([]string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	dir, err = filepath.EvalSymlinks(dir) // as the kernel names them
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return parseMounts(string(info), dir), nil
}

func parseMounts(mountinfo, dir string) []string {
	var found []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescapeMount(fields[4]); strings.HasPrefix(point, dir+"/") {
			found = append(found, point)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return found
}

// unescapeMount undoes the kernel's writing of spaces and the like as \040.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
