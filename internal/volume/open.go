package volume

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// within is how a path from outside is followed: symbolic links may lead to other
// places of the same tree, and never out of it, whoever moves them meanwhile.
const within = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// straight is how a tree is walked that a container may have arranged: no symbolic
// link is followed, and no mount point is crossed.
const straight = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openIn opens a path below an open directory.
func openIn(dir *os.File, path string, flags int, resolve uint64) (*os.File, error) {
	how := &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: resolve}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(int(dir.Fd()), path, how)
		if err == nil {
			return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), path)), nil
		}
		// EAGAIN: something was renamed while the kernel looked, so it can't be sure.
		if !errors.Is(err, unix.EINTR) && (!errors.Is(err, unix.EAGAIN) || tries > 100) {
			return nil, &os.PathError{Op: "open", Path: filepath.Join(dir.Name(), path), Err: err}
		}
	}
}

// openDir opens a directory of ours.
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_DIRECTORY|os.O_RDONLY, 0)
}
