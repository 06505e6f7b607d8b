package volume

import (
	"time"

	"golang.org/x/sys/unix"
)

// DirInfo has the facts of the directory of a volume from the disk. An unknown one is zero.
type DirInfo struct {
	There bool
	Since time.Time
	// Capacity and Used are set for a volume that has a file system of its own.
	Capacity, Used *int64
}

// StatDir reads age and space of a volume without walking through its directories.
func StatDir(path string) DirInfo {
	var is unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME|unix.STATX_MODE, &is); err != nil {
		return DirInfo{}
	}
	found := DirInfo{There: true}
	if is.Mask&unix.STATX_BTIME != 0 {
		found.Since = time.Unix(is.Btime.Sec, int64(is.Btime.Nsec))
	}
	if is.Attributes_mask&is.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return found
	}
	var space unix.Statfs_t
	if err := unix.Statfs(path, &space); err == nil && space.Blocks > 0 {
		block := space.Bsize
		found.Capacity = new(int64(space.Blocks) * block)
		found.Used = new(int64(space.Blocks-space.Bfree) * block)
	}
	return found
}
