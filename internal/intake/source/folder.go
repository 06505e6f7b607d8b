package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// listing is the result of listing a folder of manifests.
type listing struct {
	dir     string   // the folder to watch
	id      folderID // device and inode: another folder may take the name
	mounted bool     // it is where a filesystem is mounted
	files   []string // paths of manifests, sorted
}

type folderID struct{ device, inode uint64 }

// list lists the manifests of a folder, or a single manifest.
func list(path string) (listing, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return listFolder(path, info)
	case err == nil:
		return listFile(path, true)
	case errors.Is(err, fs.ErrNotExist) && isManifest(filepath.Base(path)):
		return listFile(path, false)
	default:
		return listing{}, fmt.Errorf("look for manifests: %w", err)
	}
}

func listFile(path string, there bool) (listing, error) {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil {
		return listing{}, fmt.Errorf("look for the manifest %s: %w", path, err)
	}
	l := listing{dir: dir, id: identify(info), mounted: isMounted(dir)}
	if there {
		l.files = []string{path}
	}
	return l, nil
}

func listFolder(dir string, info fs.FileInfo) (listing, error) {
	files, err := Manifests(dir)
	if err != nil {
		return listing{}, err
	}
	return listing{dir: dir, id: identify(info), mounted: isMounted(dir), files: files}, nil
}

// Manifests returns the paths of the manifests in a folder, sorted.
func Manifests(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	var files []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if isManifest(e.Name()) && !isFolder(path, e) {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files, nil
}

// isFolder follows symbolic links. A dangling link is no folder: reading it fails with
// an error that says what is wrong.
func isFolder(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// isManifest reports by its name whether a file is a manifest. Hidden files and the
// backups of editors are not.
func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !strings.ContainsAny(name[:1], ".#~")
	default:
		return false
	}
}

func identify(info fs.FileInfo) folderID {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return folderID{}
	}
	return folderID{device: s.Dev, inode: s.Ino}
}

// isMounted is false where the kernel can't tell.
func isMounted(dir string) bool {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, 0, &s); err != nil {
		return false
	}
	return s.Attributes_mask&s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

var (
	// errUnsettled: the file changed while it was read, or just before.
	errUnsettled = errors.New("the file is being written")
	// errWriting: a process has the file open for writing.
	errWriting = errors.New("the file is open for writing: it is read when the program that writes it has closed it")
)

// openState reports whether a process has a file open for writing.
type openState int

const (
	closed   openState = iota // no process has it open for writing
	written                   // some process has
	notKnown                  // the filesystem does not tell, or not this user
)

// stateOf asks the kernel for a read lease, which is refused while a file is open for
// writing, and gives it back at once.
func stateOf(f *os.File) (openState, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return notKnown, err
	}
	state := notKnown
	err = conn.Control(func(fd uintptr) {
		switch _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); {
		case err == nil:
			state = closed
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK) // closing the file does it, too
		case errors.Is(err, unix.EAGAIN):
			var on unix.Statfs_t
			if unix.Fstatfs(int(fd), &on) == nil {
				state = refusedLease(uint32(on.Type)) //nolint:gosec // a magic number, of 32 bits
			}
		}
	})
	return state, err
}

// refusedLease returns the state that a refused lease means on a type of filesystem. NFS and SMB
// also refuse a lease of a closed file, whenever their server has not delegated it to this machine.
func refusedLease(filesystem uint32) openState {
	switch filesystem {
	case unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return notKnown
	default:
		return written
	}
}

// CheckWriters returns an error if a file is known to be open for writing: the agent does
// not act on such a manifest.
func CheckWriters(f *os.File) error {
	if state, err := stateOf(f); err == nil && state == written {
		return errWriting
	}
	return nil
}

// check returns why the content of a file must not be used yet: the beginning of a
// manifest is often a good manifest, of another pod. Where the kernel does not tell whether
// the file is open, its modification time has to be settleTime away from now. The two times
// may come from the clocks of two machines.
func (s openState) check(modified, now time.Time) error {
	switch {
	case s == written:
		return errWriting
	case s == notKnown && now.Sub(modified).Abs() < settleTime:
		return errUnsettled
	default:
		return nil
	}
}

// readManifest reads a file that may be anything: large, a pipe, half written.
func readManifest(path string) (data []byte, err error) {
	// Opening a pipe without this flag would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	before, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if before.Size() > MaxManifest {
		return nil, tooLarge(path)
	}
	data, err = io.ReadAll(io.LimitReader(f, MaxManifest+1))
	if err != nil {
		return nil, err
	}
	// The state is read after the content, so that a writer that came in between is noticed.
	state, err := stateOf(f)
	if err == nil {
		err = state.check(before.ModTime(), time.Now())
	}
	if err != nil {
		return nil, err
	}
	if len(data) > MaxManifest {
		return nil, tooLarge(path)
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if after.Size() != int64(len(data)) || !after.ModTime().Equal(before.ModTime()) {
		return nil, errUnsettled
	}
	return data, nil
}

func tooLarge(name string) error {
	return fmt.Errorf("%s has more than %d MB: split it", name, MaxManifest>>20)
}
