package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"berth/internal/lib/podfile"
)

// Load reads a state file that the agent can go on without. decode uses what it can of the content,
// and returns an error that names the rest; package salvage has functions for that.
//
// A file that can't be read, or not all of it, is set aside: it gets a second name that ends in
// .corrupt, in place of an earlier one, and keeps its own name until the next write. The log has
// one line then, which begins with lost: what the agent does not know any more. The error is
// for callers that want to know, and needs no action. A file that does not exist is no error.
func Load(log *slog.Logger, path, lost string, decode func(content []byte) error) error {
	err := Read(path, decode)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	aside := path + ".corrupt"
	if asideErr := setAside(path, aside); asideErr != nil {
		aside, err = "", errors.Join(err, asideErr)
	}
	log.Warn(lost, "file", path, "aside", aside, "err", err)
	return err
}

// setAside links instead of copying, which needs no room on a full disk, and no file that can be read.
func setAside(path, aside string) error {
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set it aside: %w", err)
	}
	if err := os.Link(path, aside); err != nil {
		return fmt.Errorf("set it aside: %w", err)
	}
	return nil
}

// Read is Load for readers that don't go on without the file, or don't own it: nothing is set
// aside or logged, and a file that does not exist is an fs.ErrNotExist.
func Read(path string, decode func(content []byte) error) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := decode(content); err != nil {
		return &damagedError{path, err}
	}
	return nil
}

// maxRecord bounds the size of a record, in bytes.
const maxRecord = 1 << 20

// ReadRecord reads the JSON file name below dir, which is about one thing: a pod, a volume, an
// image, a process. A damaged record is an error of that thing and stays where it is: without it,
// the thing would look as if it had never been recorded. Containers may be able to write the file.
func ReadRecord[T any](dir, name string) (T, error) {
	var record T
	content, err := podfile.Read(dir, name, maxRecord)
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(content, &record); err != nil {
		return *new(T), &damagedError{filepath.Join(dir, name), err}
	}
	return record, nil
}

// damagedError says that a file could be read, and its content could not be decoded.
type damagedError struct {
	path string
	err  error
}

func (e *damagedError) Error() string { return "read " + e.path + ": " + e.err.Error() }

func (e *damagedError) Unwrap() error { return e.err }

// IsDamaged reports whether a file could be read, and its content could not be decoded.
func IsDamaged(err error) bool {
	_, ok := errors.AsType[*damagedError](err)
	return ok
}
