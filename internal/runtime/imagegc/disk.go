package imagegc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ReadDisk measures the file system that holds a directory of images.
func ReadDisk(dir string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Disk{}, fmt.Errorf("measure the file system of images: %w", err)
	}
	return Disk{Capacity: int64(s.Blocks) * s.Bsize, Available: int64(s.Bavail) * s.Bsize}, nil // no disk is that large
}
