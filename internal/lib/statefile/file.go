package statefile

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"berth/internal/lib/atomicfile"
)

// File is an entry that is one file, replaced as a whole. Its newest content is kept in
// memory until it is on the disk.
type File struct {
	path    string
	replace func(path string, data []byte, mode fs.FileMode) error
	entry   *Entry

	mu     sync.Mutex
	newest []byte
	wrote  []byte // nil if it is not known what the file holds
}

// File returns the file at path, which only its owner may read. what is its name in the log.
func (k *Keeper) File(path, what string) *File { return k.file(path, what, atomicfile.Replace) }

// FileForGood is File for what has to survive a power cut.
func (k *Keeper) FileForGood(path, what string) *File {
	return k.file(path, what, atomicfile.ReplaceForGood)
}

func (k *Keeper) file(path, what string, replace func(string, []byte, fs.FileMode) error) *File {
	f := &File{path: path, replace: replace}
	f.entry = k.Entry(what, f.write)
	return f
}

// Path is where the file is.
func (f *File) Path() string { return f.path }

// Save replaces the content of the file, now or, if that fails, later. The caller does not
// write to data any more. The error is for callers that want to know, and needs no action.
func (f *File) Save(data []byte) error {
	f.mu.Lock()
	f.newest = data
	f.mu.Unlock()
	return f.entry.Save()
}

func (f *File) write() error {
	f.mu.Lock()
	data := f.newest
	f.mu.Unlock()
	if f.wrote != nil && bytes.Equal(data, f.wrote) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	if err := f.replace(f.path, data, 0o600); err != nil {
		return err
	}
	f.wrote = data
	return nil
}
