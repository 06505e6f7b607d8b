package volume

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// What the group is allowed in a volume that is given to it.
const (
	groupFile = 0o660
	groupDir  = 0o2770 // and new files get the group, too
)

// giveToGroup gives a directory and all that is in it to a group, without following
// a symbolic link or entering another mount. The directory itself comes last: if it
// is right, so is the rest, and lazy leaves it at that.
func giveToGroup(root *os.File, gid int, lazy bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s: %w", root.Name(), err)
	}
	if lazy && int(st.Gid) == gid && st.Mode&groupDir == groupDir {
		return nil
	}
	// Directories are opened by their path from the root, so that a deep tree
	// does not use up the files that a process can have open.
	pending := []string{"."}
	for len(pending) > 0 {
		at := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		below, err := giveEntries(root, at, gid)
		if err != nil {
			return err
		}
		pending = append(pending, below...)
	}
	return give(int(root.Fd()), root.Name(), gid)
}

// giveEntries gives away what is in one directory, and returns the directories in it.
func giveEntries(root *os.File, at string, gid int) ([]string, error) {
	dir, err := openIn(root, at, unix.O_RDONLY|unix.O_DIRECTORY, straight)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var dirs []string
	for {
		entries, err := dir.ReadDir(batch)
		for _, e := range entries {
			isDir, err := giveEntry(dir, e.Name(), gid)
			if err != nil {
				return nil, err
			}
			if isDir {
				dirs = append(dirs, filepath.Join(at, e.Name()))
			}
		}
		if errors.Is(err, io.EOF) {
			return dirs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", dir.Name(), err)
		}
	}
}

func giveEntry(dir *os.File, name string, gid int) (isDir bool, err error) {
	// O_PATH touches nothing: a pipe or a device must not be opened.
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	path := filepath.Join(dir.Name(), name)
	if err != nil {
		return false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, give(fd, path, gid)
}

// give gives what fd is a handle of (O_PATH) to a group.
func give(fd int, path string, gid int) error {
	if err := unix.Fchownat(fd, "", -1, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "chown", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	mode := st.Mode & 0o7777
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil
	case unix.S_IFDIR:
		mode |= groupDir
	default:
		mode |= groupFile
	}
	if mode == st.Mode&0o7777 {
		return nil
	}
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode); err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}
