package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
)

// Permissions that are added for the fsGroup.
const (
	groupFile = 0o660
	groupDir  = 0o2770 // setgid: new files get the group, too
)

// refusals counts the files whose group could not be changed.
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

// slowFSGroup is after how long it is recorded that the files of a volume are still being given to a group.
const slowFSGroup = 30 * time.Second

// applyFSGroup gives the files of a volume to the fsGroup of the pod. Not all file systems allow that:
// like with the kubelet, files that can't be changed stay as they are, with a warning.
func (j *job) applyFSGroup(ctx context.Context, root *os.File, volume string) error {
	slow := time.AfterFunc(slowFSGroup, func() {
		j.m.cfg.Warn(j.pod, "VolumePermissionChangeInProgress",
			fmt.Sprintf("Setting volume ownership for volume %q is taking longer than expected, consider fsGroupChangePolicy: OnRootMismatch", volume))
	})
	defer slow.Stop()
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

// chgrpTree changes the group of a directory and of all that is in it. It follows no symbolic link
// and, unlike the kubelet, enters no other mount, since pods do not see it. The directory itself comes
// last: lazy (OnRootMismatch) returns at once if it has the group and the mode. What is nested deeper
// than podfile.MaxDepth stays as it is.
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
	entry, err := podfile.OpenIn(e.Dir, e.Name, unix.O_PATH|unix.O_NOFOLLOW, podfile.NoLinksNoMounts)
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

// isGoneOrMounted reports whether a file could not be opened because it was removed, or is a mount
// point.
func isGoneOrMounted(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV)
}

// chgrp changes the group of the file behind an O_PATH handle, and adds its permissions.
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
