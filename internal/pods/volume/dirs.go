package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/lib/volumekind"
)

const (
	volumesDir  = "volumes"
	subPathsDir = "volume-subpaths"
	sourcesDir  = "volume-sources"
)

// volumePath returns the directory of a volume, which may not exist.
func (j *job) volumePath(kindDir, name string) string {
	return filepath.Join(j.dir, volumesDir, kindDir, name)
}

// makeDir makes the directory of a volume, writable for all users of the pod. It appears by a rename,
// so a directory that exists is complete, and is left as it is: a container may have changed it.
func (j *job) makeDir(kind volumekind.Kind, name string) (string, error) {
	dir := j.volumePath(kind.Dir(), name)
	if info, err := os.Lstat(dir); err == nil && info.IsDir() {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", fmt.Errorf("make its directory: %w", err)
	}
	fresh := filepath.Join(filepath.Dir(dir), "."+name) // no volume has such a name
	if err := os.Mkdir(fresh, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make its directory: %w", err)
	}
	if err := setOwner(fresh, -1, j.group, volumeDirMode(j.group)); err != nil {
		return "", fmt.Errorf("make its directory: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return "", fmt.Errorf("make its directory: %w", err)
	}
	return dir, nil
}

// makeMemoryDir makes the directory of a volume, and mounts a file system in memory on it.
func (j *job) makeMemoryDir(kind volumekind.Kind, name, fstype, options string) (string, error) {
	dir := j.volumePath(kind.Dir(), name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("make its directory: %w", err)
	}
	mounted, err := j.m.cfg.Mounter.IsMount(dir)
	if err != nil || mounted {
		return dir, err
	}
	mode := volumeDirMode(j.group)
	if kind == volumekind.EmptyDir && fstype == "tmpfs" {
		mode |= fs.ModeSticky // as the kubelet has it, and as a tmpfs is unless it is given a mode
	}
	text := fmt.Sprintf("mode=%04o", unixMode(mode))
	if j.group >= 0 {
		text += fmt.Sprintf(",gid=%d", j.group)
	}
	if options != "" {
		text += "," + options
	}
	swaps, err := j.m.cfg.Mounter.Mount(fstype, dir, text)
	if err != nil {
		return "", fmt.Errorf("mount %s on %s: %w", fstype, dir, err)
	}
	if swaps {
		j.m.swapWarned.Do(func() {
			j.m.cfg.Log.Warn("swap is on, and this kernel can't keep volumes in memory out of it: secrets may be written to a disk; " +
				"turn swap off, or use kernel 6.4 or newer")
		})
	}
	return dir, nil
}

// volumeDirMode returns the mode of a volume's directory. With an fsGroup, new files in it get that
// group.
func volumeDirMode(group int) fs.FileMode {
	if group >= 0 {
		return 0o777 | fs.ModeSetgid
	}
	return 0o777
}

// unixMode returns a mode as chmod(2) takes it.
func unixMode(m fs.FileMode) uint32 {
	out := uint32(m.Perm())
	if m&fs.ModeSetgid != 0 {
		out |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		out |= 0o1000
	}
	return out
}

// setOwner sets user and group (-1: unchanged) and then the mode of a file, since chown clears bits of
// the mode. The file must be one of the agent's, and no symbolic link.
func setOwner(path string, uid, gid int, mode fs.FileMode) error {
	if uid >= 0 || gid >= 0 {
		if err := os.Lchown(path, uid, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}
