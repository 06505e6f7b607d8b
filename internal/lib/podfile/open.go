package podfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// How a path below an open directory is resolved.
const (
	// Within follows symbolic links within the directory, and never out of it, even if
	// another process moves links at the same time. It needs Linux 5.6.
	Within = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	// NoLinksNoMounts follows no symbolic link, and crosses no mount point.
	NoLinksNoMounts = noLinks | unix.RESOLVE_NO_XDEV
)

// OpenIn opens a path below an open directory, with flags as in open(2). With O_RDONLY, path
// has to be a directory: files are opened by OpenRegularIn.
func OpenIn(dir *os.File, path string, flags int, resolve uint64) (*os.File, error) {
	how := &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: resolve}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(int(dir.Fd()), path, how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), path)), nil
		case errors.Is(err, unix.ENOSYS):
			return openBySteps(dir, path, flags, resolve)
		// EAGAIN: an entry was renamed while the kernel resolved the path.
		case !errors.Is(err, unix.EINTR) && (!errors.Is(err, unix.EAGAIN) || tries > 100):
			return nil, openError(dir, path, err)
		}
	}
}

func openError(dir *os.File, path string, err error) error {
	if errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("a symbolic link is on the way, which is not followed where containers can write: %w", err)
	}
	return &os.PathError{Op: "open", Path: filepath.Join(dir.Name(), path), Err: err}
}

// openBySteps is OpenIn for kernels without openat2: it opens one component of the path after
// the other, and refuses symbolic links. It sees a mount point only if another file system
// is mounted there.
func openBySteps(dir *os.File, path string, flags int, resolve uint64) (*os.File, error) {
	if resolve&unix.RESOLVE_NO_SYMLINKS == 0 {
		return nil, openError(dir, path, fmt.Errorf("to follow symbolic links safely needs Linux 5.6 (openat2): %w", unix.ENOSYS))
	}
	if !filepath.IsLocal(path) {
		return nil, openError(dir, path, unix.EXDEV)
	}
	at, steps := int(dir.Fd()), strings.Split(filepath.Clean(path), "/")
	for i, name := range steps {
		step := unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW
		if i == len(steps)-1 {
			step = flags | unix.O_NOFOLLOW
		}
		next, err := unix.Openat(at, name, step|unix.O_CLOEXEC, 0)
		if err == nil {
			if err = checkStep(dir, next, flags, resolve); err != nil {
				_ = unix.Close(next)
			}
		}
		if errors.Is(err, unix.ENOTDIR) && isLink(at, name) { // as openat2 has it
			err = unix.ELOOP
		}
		if at != int(dir.Fd()) {
			_ = unix.Close(at)
		}
		if err != nil {
			return nil, openError(dir, path, err)
		}
		at = next
	}
	return os.NewFile(uintptr(at), filepath.Join(dir.Name(), path)), nil
}

// checkStep refuses another file system, and a symbolic link that was opened as such (O_PATH),
// unless the caller has asked for the link with O_NOFOLLOW.
func checkStep(dir *os.File, fd, flags int, resolve uint64) error {
	var root, st unix.Stat_t
	if err := errors.Join(unix.Fstat(int(dir.Fd()), &root), unix.Fstat(fd, &st)); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK && flags&unix.O_NOFOLLOW == 0:
		return unix.ELOOP
	case resolve&unix.RESOLVE_NO_XDEV != 0 && st.Dev != root.Dev:
		return unix.EXDEV
	}
	return nil
}

func isLink(dir int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}
