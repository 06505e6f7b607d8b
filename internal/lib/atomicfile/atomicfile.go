// Package atomicfile replaces files as a whole: a reader finds the old content or the new content,
// and nothing between, whenever the writer was interrupted.
//
// A file has one writer at a time. It writes to a second file, whose name ends in ".new", and renames
// it: a crash leaves at most the second file, which the next write replaces.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace replaces the content of a file, which gets this mode whatever the umask is. The directory
// has to exist. After a power cut the file may be empty: it is for files that need not survive one.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return replace(path, data, mode, func(*os.File) error { return nil })
}

// ReplaceForGood is Replace for files that have to survive a power cut: the content is synced to the
// disk when it returns.
func ReplaceForGood(path string, data []byte, mode fs.FileMode) error {
	if err := replace(path, data, mode, (*os.File).Sync); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func replace(path string, data []byte, mode fs.FileMode, sync func(*os.File) error) error {
	part := path + ".new"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	err = f.Chmod(mode) // before there is anything to read: one that was left over has its own
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}
