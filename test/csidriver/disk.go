package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// diskSize is the size of a new disk, in bytes.
const diskSize = 4 << 20

// mountDisk mounts the file system of a volume, unless it is mounted. A new volume gets its file system first.
func (n *node) mountDisk(volume, path string, options []string) error {
	disk := n.data(volume) + ".ext4"
	if _, err := os.Stat(disk); errors.Is(err, fs.ErrNotExist) {
		if err := makeDisk(disk); err != nil {
			return err
		}
	}
	var there, above unix.Stat_t
	if err := errors.Join(unix.Stat(path, &there), unix.Stat(filepath.Dir(path), &above)); err != nil {
		return err
	}
	if there.Dev != above.Dev {
		return nil
	}
	return runTool("mount", "-o", strings.Join(append([]string{"loop"}, options...), ","), disk, path)
}

func makeDisk(disk string) error {
	const part = ".part"
	file, err := os.Create(disk + part)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(diskSize), file.Close()); err != nil {
		return err
	}
	if err := runTool("mkfs.ext4", "-q", "-F", disk+part); err != nil {
		return err
	}
	return os.Rename(disk+part, disk)
}

func runTool(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w: %s", name, args, err, out)
	}
	return nil
}
