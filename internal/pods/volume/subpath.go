package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/lib/podfile"
)

// subPath bind-mounts a part of a volume on target. The part is opened first, such that the path can't
// leave the volume, and the open handle is mounted: a container that replaces directories in between
// changes nothing.
func (m *Manager) subPath(ctx context.Context, at place, sub, target string) error {
	root, err := os.OpenFile(at.path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer root.Close()
	part, err := podfile.OpenIn(root, sub, unix.O_PATH, podfile.Within)
	if errors.Is(err, fs.ErrNotExist) && !at.fixed {
		part, err = makeSubPath(root, sub)
	}
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return errors.New("it leads out of the volume")
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it does not exist in the volume")
	case err != nil:
		return err
	}
	defer part.Close()
	done, err := m.isMountOf(ctx, part, target)
	if err != nil || done {
		return err
	}
	if err := makeTarget(part, target); err != nil {
		return fmt.Errorf("make a mount point: %w", err)
	}
	if err := m.cfg.Mounter.Bind(part, target, nil); err != nil {
		return fmt.Errorf("mount it on %s: %w", target, err)
	}
	return nil
}

// makeSubPath makes the missing directories of a subPath, with the permissions of the volume.
func makeSubPath(root *os.File, sub string) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: root.Name(), Err: err}
	}
	at, err := podfile.OpenIn(root, ".", unix.O_PATH|unix.O_DIRECTORY, podfile.Within)
	if err != nil {
		return nil, err
	}
	// Each component is opened from the root again: a link on the way may go up and down.
	parts := strings.Split(filepath.Clean(sub), "/")
	for i, name := range parts {
		path := filepath.Join(parts[:i+1]...)
		next, err := podfile.OpenIn(root, path, unix.O_PATH, podfile.Within)
		if errors.Is(err, fs.ErrNotExist) {
			if err := makeDirAt(at, name, st.Mode&0o7777); err != nil {
				at.Close()
				return nil, err
			}
			next, err = podfile.OpenIn(root, path, unix.O_PATH, podfile.Within)
		}
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func makeDirAt(dir *os.File, name string, mode uint32) error {
	path := filepath.Join(dir.Name(), name)
	err := unix.Mkdirat(int(dir.Fd()), name, mode)
	if errors.Is(err, unix.EEXIST) {
		return nil // the open that follows checks what it is
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	made, err := podfile.OpenIn(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, podfile.NoLinksNoMounts)
	if err != nil {
		return err
	}
	defer made.Close()
	if err := unix.Fchmod(int(made.Fd()), mode); err != nil { // mkdir applies the umask
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

// isMountOf reports whether target, from an earlier container, is a mount of part. A mount of something
// else is unmounted.
func (m *Manager) isMountOf(ctx context.Context, part *os.File, target string) (bool, error) {
	mounted, err := m.cfg.Mounter.IsMount(target)
	if err != nil || !mounted {
		return false, err
	}
	var want, have unix.Stat_t
	if err := unix.Fstat(int(part.Fd()), &want); err != nil {
		return false, &os.PathError{Op: "stat", Path: part.Name(), Err: err}
	}
	if err := unix.Lstat(target, &have); err == nil && have.Dev == want.Dev && have.Ino == want.Ino {
		return true, nil
	}
	return false, m.unmountAt(ctx, func(string) {}, target)
}

// makeTarget makes the mount point for part: a directory for a directory, a file for a file.
func makeTarget(part *os.File, target string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(part.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: part.Name(), Err: err}
	}
	wantDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	if info, err := os.Lstat(target); err == nil {
		if info.IsDir() == wantDir {
			return nil
		}
		if err := os.Remove(target); err != nil {
			return err
		}
	}
	if wantDir {
		return os.Mkdir(target, 0o750)
	}
	return os.WriteFile(target, nil, 0o640)
}
