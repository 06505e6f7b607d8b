package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// readInterval is the time between two reads. It leaves CPU time to others.
const readInterval = time.Millisecond

// versions reads a volume whose files contain version numbers. Files with the same name up to the
// dash are of one object, and contain the same number, on each of their lines.
type versions struct {
	dir, file string
	size      map[string]int // of all files, as they were found first

	// The report for fixture.AwaitVersions, which is written whenever a number is new.
	Newest map[string]int // the number by object
	Reads  int
	Seen   int // how many numbers in all
	Fault  string
}

// watchVersions reads a volume until it finds a mistake. It reads the folder that ..data links to
// as a whole: through the links at the top, two files may be of different versions.
func watchVersions(ctx context.Context, dir, file string) error {
	v := &versions{dir: dir, file: file, Newest: map[string]int{}}
	for ctx.Err() == nil {
		if err := v.read(); err != nil {
			v.Fault = err.Error()
			return errors.Join(err, v.write())
		}
		time.Sleep(readInterval)
	}
	return nil
}

func (v *versions) read() error {
	link := filepath.Join(v.dir, "..data")
	current, err := os.Readlink(link)
	if err != nil {
		return err
	}
	files, err := readFolder(filepath.Join(v.dir, current))
	if err == nil {
		err = v.sameFiles(files)
	}
	if now, _ := os.Readlink(link); err != nil && now != "" && now != current {
		return nil // ..data was replaced, and this folder was removed during the read
	}
	if err != nil {
		return fmt.Errorf("the version that is shown: %w", err)
	}
	v.Reads++
	return v.take(files)
}

// readFolder reads all files of a folder, of that one even if another gets its name.
func readFolder(dir string) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // nothing was written
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, entry := range list {
		content, err := root.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		files[entry.Name()] = string(content)
	}
	return files, nil
}

// sameFiles: a version has all the files that the first had, and all of each.
func (v *versions) sameFiles(files map[string]string) error {
	size := map[string]int{}
	for name, content := range files {
		size[name] = len(content)
	}
	if v.size == nil {
		v.size = size
	}
	if !maps.Equal(size, v.size) {
		return fmt.Errorf("its files have %v bytes, not %v", size, v.size)
	}
	for name := range size {
		if _, err := os.Lstat(filepath.Join(v.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// take compares the numbers with one another and with those of the last read. Objects
// may be one apart: they are never changed at the same moment.
func (v *versions) take(files map[string]string) error {
	found := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		line, _, _ := strings.Cut(files[name], "\n")
		number, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		if strings.Count(files[name], line+"\n")*(len(line)+1) != len(files[name]) {
			return fmt.Errorf("a mix: %s begins with %d, and goes on with something else", name, number)
		}
		object, _, _ := strings.Cut(name, "-")
		if before, ok := found[object]; ok && before != number {
			return fmt.Errorf("a mix: %s is of version %d, and others of %s are of %d", name, number, object, before)
		}
		found[object] = number
	}
	numbers := slices.Sorted(maps.Values(found))
	if numbers[len(numbers)-1]-numbers[0] > 1 {
		return fmt.Errorf("a mix: objects have the versions %v", found)
	}
	changed := false
	for object, number := range found {
		before, known := v.Newest[object]
		if known && number < before {
			return fmt.Errorf("%s went back from %d to %d", object, before, number)
		}
		if !known || number > before {
			v.Newest[object], changed = number, true
			v.Seen++
		}
	}
	if changed {
		return v.write()
	}
	return nil
}

// write replaces the file with the report atomically.
func (v *versions) write() error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(v.file+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(v.file+".new", v.file)
}
