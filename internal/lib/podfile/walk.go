package podfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// batch is how many names of a directory are in memory at a time.
	batch = 64
	// MaxDepth is how many levels of directories a walk goes down: each keeps a file open.
	MaxDepth = 256
)

var (
	// ErrTooMany ends a walk that has come to more entries than the caller allows.
	ErrTooMany = errors.New("there are too many files")
	// ErrTooDeep is returned by a walk that has left out directories below MaxDepth.
	ErrTooDeep = fmt.Errorf("directories are nested more than %d levels deep", MaxDepth)
)

// Entry is an entry of a directory.
type Entry struct {
	Dir  *os.File     // the directory of the entry, open while the entry is visited
	Name string       // in Dir
	Stat *unix.Stat_t // of the entry itself, also if it is a symbolic link
}

// IsDir reports whether the entry is a directory.
func (e Entry) IsDir() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// Walk visits all entries below a directory, in no order, each directory before its content.
// It follows no symbolic link and crosses no mount point; entries that vanish meanwhile
// are left out. With maxEntries 0 there is no limit of entries. Walk goes on after a directory that
// is nested too deep, and returns ErrTooDeep in the end. If visit returns fs.SkipDir for a
// directory, its content is left out; any other error ends the walk.
func Walk(ctx context.Context, root *os.File, maxEntries int, visit func(Entry) error) error {
	w := &walk{maxEntries: maxEntries, visit: visit}
	defer func() {
		for _, l := range w.levels {
			_ = l.dir.Close()
		}
	}()
	dir, err := OpenIn(root, ".", unix.O_RDONLY|unix.O_DIRECTORY, NoLinksNoMounts)
	if err != nil {
		return err
	}
	w.levels = append(w.levels, level{dir: dir})
	for len(w.levels) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.next(); err != nil {
			return err
		}
	}
	return w.tooDeep
}

// level is a directory whose entries are being visited.
type level struct {
	dir   *os.File
	names []string // the rest of the batch of names that was read last
}

type walk struct {
	maxEntries, entries int
	visit               func(Entry) error
	levels              []level // from the root to the present directory
	tooDeep             error
}

// next visits one entry, or closes a directory that has no more entries.
func (w *walk) next() error {
	at := &w.levels[len(w.levels)-1]
	if len(at.names) == 0 {
		var err error
		if at.names, err = at.dir.Readdirnames(batch); len(at.names) == 0 {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) { // it was removed
				return fmt.Errorf("list %s: %w", at.dir.Name(), err)
			}
			_ = at.dir.Close()
			w.levels = w.levels[:len(w.levels)-1]
			return nil
		}
	}
	name := at.names[0]
	at.names = at.names[1:]
	if w.entries++; w.maxEntries > 0 && w.entries > w.maxEntries {
		return ErrTooMany
	}
	var st unix.Stat_t
	err := unix.Fstatat(int(at.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "stat", Path: at.dir.Name() + "/" + name, Err: err}
	}
	e := Entry{Dir: at.dir, Name: name, Stat: &st}
	switch err := w.visit(e); {
	case errors.Is(err, fs.SkipDir):
		return nil
	case err != nil || !e.IsDir():
		return err
	}
	return w.enter(at.dir, name)
}

func (w *walk) enter(parent *os.File, name string) error {
	if len(w.levels) >= MaxDepth {
		w.tooDeep = ErrTooDeep
		return nil
	}
	dir, err := OpenIn(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, NoLinksNoMounts)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return nil // gone or replaced meanwhile, or something is mounted there
	case err != nil:
		return err
	}
	w.levels = append(w.levels, level{dir: dir})
	return nil
}

// Each calls visit with every entry of the directory name below base ("." is base itself),
// in no order, and holds one batch of them at a time. fs.SkipAll ends it without an error.
func Each(base, name string, visit func(fs.DirEntry) error) error {
	dir, err := OpenDir(base, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(batch)
		for _, e := range entries {
			if err := visit(e); err != nil {
				if errors.Is(err, fs.SkipAll) {
					return nil
				}
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", dir.Name(), err)
		}
	}
}
