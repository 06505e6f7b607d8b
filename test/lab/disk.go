package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// addDisk gives a folder a disk of its own, which is a file beside it.
func addDisk(dir string, bytes int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := dir + ".disk"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(file, bytes); err != nil {
		return err
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", file}, {"mount", "-o", "loop", file, dir}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("give %s a disk: %s: %w: %s", dir, args[0], err, out)
		}
	}
	return nil
}

// dropDisk takes the disk of a folder away, if it has one. The kernel lets go of the file
// by itself.
func dropDisk(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take the disk of %s away: %w", dir, err)
	}
	return nil
}
