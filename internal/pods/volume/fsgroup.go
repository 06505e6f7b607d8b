package volume

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
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

func (r *refusals) add(err error) {
	if err == nil {
		return
	}
	if r.files == 0 {
		r.first = err
	}
	r.files++
}

// applyFSGroup gives a volume to the group of the pod, if it has to be. Not all file systems
// can do that, or want to: a pod has to live with what it gets, as it does with a kubelet.
func (j *job) applyFSGroup(ctx context.Context, root *os.File, volume string) error {
	refused, err := chgrpTree(ctx, root, j.group, onRootMismatch(j.pod))
	if refused.files > 0 {
		j.m.cfg.Log.Warn("a volume can't be given to the group of its pod; some files stay as they are",
			"pod", pod.Ref(j.pod), "volume", volume, "group", j.group, "files", refused.files, "err", refused.first)
	}
	if err != nil {
		return fmt.Errorf("give it to group %d: %w", j.group, err)
	}
	return nil
}

// chgrpTree gives a directory and all that is in it to a group, without following
// a symbolic link or touching another mount: what is mounted there is not shown to pods,
// and belongs to somebody else. The kubelet goes on into it. The directory itself comes
// last: if it is right, so is the rest, and lazy leaves it at that. What is nested deeper than
// a walk goes (podfile.MaxDepth) stays as it is.
func chgrpTree(ctx context.Context, root *os.File, gid int, lazy bool) (refused refusals, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return refused, fmt.Errorf("look at %s: %w", root.Name(), err)
	}
	if lazy && int(st.Gid) == gid && st.Mode&groupDir == groupDir {
		return refused, nil
	}
	err = podfile.Walk(ctx, root, 0, func(e podfile.Entry) error { return chgrpEntry(e, gid, &refused) })
	if errors.Is(err, podfile.ErrTooDeep) {
		refused.add(err)
	} else if err != nil {
		return refused, err
	}
	refused.add(chgrp(int(root.Fd()), root.Name(), gid))
	return refused, nil
}

func chgrpEntry(e podfile.Entry, gid int, refused *refusals) error {
	// O_PATH touches nothing: a pipe or a device must not be opened.
	entry, err := podfile.OpenIn(e.Dir, e.Name, unix.O_PATH|unix.O_NOFOLLOW, podfile.Straight)
	if isGoneOrMounted(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer entry.Close()
	refused.add(chgrp(int(entry.Fd()), entry.Name(), gid))
	return nil
}

// isGoneOrMounted is said of an error about something that is gone, or where something else
// is mounted.
func isGoneOrMounted(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV)
}

// chgrp gives what fd is a handle of (O_PATH) to a group.
func chgrp(fd int, path string, gid int) error {
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
