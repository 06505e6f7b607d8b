package volume

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/internal/pod"
)

// What the group is allowed in a volume that is given to it.
const (
	groupFile = 0o660
	groupDir  = 0o2770 // and new files get the group, too
)

// refusals are the files that a file system does not want to be given away.
type refusals struct {
	files int
	first error
}

func (r *refusals) note(err error) {
	if err == nil {
		return
	}
	if r.files == 0 {
		r.first = err
	}
	r.files++
}

// giveToPod gives a volume to the group of the pod, if it has to be. Not all file systems
// can do that, or want to: a pod has to live with what it gets, as it does with a kubelet.
func (j *job) giveToPod(root *os.File, volume string) error {
	refused, err := giveToGroup(root, j.group, onRootMismatch(j.pod))
	if refused.files > 0 {
		j.m.cfg.Log.Warn("a volume can't be given to the group of its pod; some files stay as they are",
			"pod", pod.Ref(j.pod), "volume", volume, "group", j.group, "files", refused.files, "err", refused.first)
	}
	if err != nil {
		return fmt.Errorf("give it to group %d: %w", j.group, err)
	}
	return nil
}

// giveToGroup gives a directory and all that is in it to a group, without following
// a symbolic link or touching another mount: what is mounted there is not shown to pods,
// and belongs to somebody else. The kubelet goes on into it. The directory itself comes
// last: if it is right, so is the rest, and lazy leaves it at that.
func giveToGroup(root *os.File, gid int, lazy bool) (refused refusals, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return refused, fmt.Errorf("look at %s: %w", root.Name(), err)
	}
	if lazy && int(st.Gid) == gid && st.Mode&groupDir == groupDir {
		return refused, nil
	}
	// Directories are opened by their path from the root, so that a deep tree
	// does not use up the files that a process can have open.
	pending := []string{"."}
	for len(pending) > 0 {
		at := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		below, err := giveEntries(root, at, gid, &refused)
		if err != nil {
			return refused, err
		}
		pending = append(pending, below...)
	}
	refused.note(give(int(root.Fd()), root.Name(), gid))
	return refused, nil
}

// giveEntries gives away what is in one directory, and returns the directories in it.
func giveEntries(root *os.File, at string, gid int, refused *refusals) ([]string, error) {
	dir, err := openIn(root, at, unix.O_RDONLY|unix.O_DIRECTORY, straight)
	if isElsewhere(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var dirs []string
	for {
		entries, err := dir.ReadDir(batch)
		for _, e := range entries {
			isDir, err := giveEntry(dir, e.Name(), gid, refused)
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

func giveEntry(dir *os.File, name string, gid int, refused *refusals) (isDir bool, err error) {
	// O_PATH touches nothing: a pipe or a device must not be opened.
	entry, err := openIn(dir, name, unix.O_PATH|unix.O_NOFOLLOW, straight)
	if isElsewhere(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer entry.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(entry.Fd()), &st); err != nil {
		return false, &os.PathError{Op: "stat", Path: entry.Name(), Err: err}
	}
	refused.note(give(int(entry.Fd()), entry.Name(), gid))
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// isElsewhere is said of an error about something that is gone, or where something else
// is mounted.
func isElsewhere(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) }

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
