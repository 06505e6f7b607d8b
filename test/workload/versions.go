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

// pauseOfReader is between two reads, so that others get at the processor, too.
const pauseOfReader = time.Millisecond

// versions reads a volume whose files hold numbers: those with the same name up to the
// dash come from one object, and so hold the same number, on each of their lines.
type versions struct {
	dir, told string
	size      map[string]int // of all files, as they were found first

	// What is told, whenever a number is new.
	Shown map[string]int // the number by object
	Reads int
	Seen  int // how many numbers, of all objects
	Fault string
}

// watchVersions reads until something is wrong. It goes by the folder that ..data leads
// to, and reads all of it: through the links on the top, one file may well be of another
// version than the next.
func watchVersions(ctx context.Context, dir, told string) error {
	v := &versions{dir: dir, told: told, Shown: map[string]int{}}
	for ctx.Err() == nil {
		if err := v.read(); err != nil {
			v.Fault = err.Error()
			return errors.Join(err, v.tell())
		}
		time.Sleep(pauseOfReader)
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
		return nil // another one is shown, and this one was removed while we read it
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
	news := false
	for object, number := range found {
		before, known := v.Shown[object]
		if known && number < before {
			return fmt.Errorf("%s went back from %d to %d", object, before, number)
		}
		if !known || number > before {
			v.Shown[object], news = number, true
			v.Seen++
		}
	}
	if news {
		return v.tell()
	}
	return nil
}

// tell writes what is known to a file, which is never found half written.
func (v *versions) tell() error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(v.told+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(v.told+".new", v.told)
}
