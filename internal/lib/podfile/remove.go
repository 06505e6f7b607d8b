package podfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// removeBatch is how many entries of a directory are removed in one go.
	removeBatch = 512
	// maxOpen is how deep a removal goes before it flattens the tree: each level
	// keeps a file open, and a container can nest as deep as it likes.
	maxOpen = 64
)

// ErrMountPoint says that a removal has found a mount point. The data of a mounted volume must
// not be removed.
var ErrMountPoint = errors.New("still a mount point")

// RemoveAll removes the entry name of the directory base: a file, or a directory with all its
// content, as RemoveTree does.
func RemoveAll(base, name string) error {
	dir, err := OpenDir(base, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := Unlink(dir, name, 0); !errors.Is(err, unix.EISDIR) {
		return err
	}
	return RemoveTree(dir, name)
}

// RemoveTree removes a directory in dir with all its content. It follows no symbolic link, and
// stops with ErrMountPoint at a mount point. The kernel checks each component when it is opened,
// so a mount that is made meanwhile is seen, too. A directory that does not exist is no error.
func RemoveTree(dir *os.File, name string) error {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return &os.PathError{Op: "remove", Path: dir.Name(), Err: fmt.Errorf("%q is no entry of it", name)}
	}
	r := &remover{}
	return r.tree(dir, name, 0)
}

// remover removes one tree. Directories that are nested too deep are moved to the top of the
// tree, where this removal finds them again, or the next one after a crash.
type remover struct {
	top    *os.File
	moved  int
	passes int // how often a directory was listed from its start
}

func (r *remover) tree(parent *os.File, name string, depth int) error {
	dir, err := OpenIn(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, NoLinksNoMounts)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%s is %w", filepath.Join(parent.Name(), name), ErrMountPoint)
	case err != nil:
		return err
	}
	defer dir.Close()
	if depth == 0 {
		r.top = dir
	}
	for empty := false; !empty; {
		if empty, err = r.pass(dir, depth); err != nil {
			return err
		}
	}
	return Unlink(parent, name, unix.AT_REMOVEDIR)
}

// pass lists a directory once and removes the listed entries, in batches. A directory that
// changes may not be listed in full: it is empty only when a pass finds nothing. A pass
// does not begin anew after each batch, because ext4 keeps the blocks of removed entries:
// each new beginning would read all of them again.
func (r *remover) pass(dir *os.File, depth int) (empty bool, err error) {
	r.passes++
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	for empty = true; ; empty = false {
		entries, err := dir.ReadDir(removeBatch)
		if len(entries) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return empty, err
		}
		for _, e := range entries {
			if err := r.entry(dir, e, depth); err != nil {
				return false, err
			}
		}
	}
}

func (r *remover) entry(dir *os.File, e fs.DirEntry, depth int) error {
	switch {
	case !e.IsDir():
		return Unlink(dir, e.Name(), 0)
	case depth < maxOpen:
		return r.tree(dir, e.Name(), depth+1)
	default:
		return r.moveUp(dir, e.Name())
	}
}

func (r *remover) moveUp(dir *os.File, name string) error {
	for {
		to := ".removed-" + strconv.Itoa(r.moved)
		r.moved++
		err := unix.Renameat2(int(dir.Fd()), name, int(r.top.Fd()), to, unix.RENAME_NOREPLACE)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return &os.PathError{Op: "move", Path: filepath.Join(dir.Name(), name), Err: err}
		}
	}
}

// Unlink removes an entry of an open directory: with AT_REMOVEDIR an empty directory, with
// 0 anything else. An entry that does not exist is no error.
func Unlink(dir *os.File, name string, flags int) error {
	err := unix.Unlinkat(int(dir.Fd()), name, flags)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "remove", Path: filepath.Join(dir.Name(), name), Err: err}
}
