package event

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// journalLimit is the size at which a file of the journal is rotated.
const journalLimit = 1 << 20

// journal is a file of lines. A full file replaces the older one, and a new one is begun. The file
// is opened for each line: lines are few, and so no open file and no state is left that an error
// could spoil.
type journal struct {
	path  string // empty: events are only in memory
	limit int64
}

func (j journal) old() string { return j.path + ".old" }

// append writes one line.
func (j journal) append(line []byte) error {
	if j.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(j.path), 0o700); err != nil {
		return err
	}
	text := slices.Concat(line, []byte{'\n'})
	// One byte more than the text: a newline that ends a torn line.
	if info, err := os.Stat(j.path); err == nil && info.Size()+int64(len(text))+1 > j.limit {
		if err := os.Rename(j.path, j.old()); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	torn, err := isTorn(f)
	if err != nil {
		return errors.Join(fmt.Errorf("look at the end of %s: %w", j.path, err), f.Close())
	}
	if torn {
		text = slices.Concat([]byte{'\n'}, text)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// isTorn reports whether f ends within a line: the agent was killed during a write.
func isTorn(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
}

// read returns all lines, the oldest first, and the errors of files that can't be read.
func (j journal) read() ([][]byte, error) {
	if j.path == "" {
		return nil, nil
	}
	older, oldErr := j.readFile(j.old())
	newer, err := j.readFile(j.path)
	return append(older, newer...), errors.Join(oldErr, err)
}

// readFile reads up to limit bytes of a file of the journal.
func (j journal) readFile(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, j.limit))
	return bytes.Split(text, []byte{'\n'}), err
}
