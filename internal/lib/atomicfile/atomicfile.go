// Package atomicfile replaces files as a whole: whoever reads one finds the old content
// or the new, and nothing between, whenever the writer was interrupted.
//
// A file has one writer at a time. What it has not finished is called as the file with
// ".new" at the end, so a crash leaves at most that, and the next write takes it over.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace makes a file hold data, with that mode whatever the umask is. The folder has
// to be there. It is for what need not survive a power cut: by then, the file may hold
// nothing at all.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return replace(path, data, mode, func(*os.File) error { return nil })
}

// ReplaceForGood is Replace for what is on the disk when it returns.
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
