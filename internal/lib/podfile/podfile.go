// Package podfile reads files that containers can write: files of the pod's directory that
// are mounted into them, volumes, termination messages, and logs, which a pod with a
// hostPath can reach. A container chooses the content, the size and the kind of such a
// file, and how many there are. So each file that is read here
//
//   - is a regular file, which is known before it is opened: to open a pipe waits for
//     its writer, and to open a device can do anything (a container can make one in an
//     emptyDir);
//   - is reached without following a symbolic link below the directory that the caller
//     trusts;
//   - takes a bounded amount of memory: of a file no more bytes than the caller asked for,
//     of a directory one batch of names, of a tree one batch for each of MaxDepth levels.
//
// A trusted directory (base) is one whose path no container can change: the directory of
// all pods, the directory of all logs. Symbolic links on the way to it are the administrator's, and
// are followed. A test in internal/arch keeps the packages that handle pods from reading
// files in any other way.
package podfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotRegular is returned for a pipe, a device, a socket or a directory where a
	// file was expected.
	ErrNotRegular = errors.New("it is not a regular file")
	// ErrTooLarge is returned for a file that is larger than the caller allows.
	ErrTooLarge = errors.New("the file is too large")
)

// noLinks resolves a path below a directory without following any symbolic link.
const noLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// Open opens the regular file name below base for reading. It never blocks on the kind
// of the file.
func Open(base, name string) (*os.File, error) {
	dir, err := openBase(base)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return OpenRegularIn(dir, name, noLinks)
}

// OpenRegularIn opens a regular file below an open directory for reading. resolve is as in
// OpenIn.
func OpenRegularIn(dir *os.File, name string, resolve uint64) (*os.File, error) {
	// O_PATH opens nothing yet: a device stays untouched.
	handle, err := OpenIn(dir, name, unix.O_PATH, resolve)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(handle.Fd()), &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: handle.Name(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &fs.PathError{Op: "open", Path: handle.Name(), Err: ErrNotRegular}
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(handle.Fd())), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: handle.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), handle.Name()), nil
}

// Read returns the content of a regular file below base, which has to fit into limit
// bytes.
func Read(base, name string, limit int64) ([]byte, error) {
	file, err := Open(base, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadOpen(file, limit)
}

// ReadOpen returns the rest of an open file, which has to fit into limit bytes.
func ReadOpen(file *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: file.Name(), Err: fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)}
	}
	return data, nil
}

// Tail returns the last bytes of a regular file below base, limit bytes at most.
func Tail(base, name string, limit int64) ([]byte, error) {
	file, err := Open(base, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-limit), limit))
}

// openBase opens a trusted directory as a place to start from.
func openBase(base string) (*os.File, error) {
	return os.OpenFile(base, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// OpenDir opens the directory name below base, to list it. "." is base itself.
func OpenDir(base, name string) (*os.File, error) {
	dir, err := openBase(base)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return OpenIn(dir, filepath.Clean(name), unix.O_RDONLY|unix.O_DIRECTORY, noLinks)
}
