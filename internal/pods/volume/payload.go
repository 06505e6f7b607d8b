package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/podfile"
)

// The limits of Linux for a path and for each of its components, in bytes.
const (
	maxPath      = 4095
	maxComponent = 255
)

// maxObject is the API server's limit for the data of a ConfigMap or a Secret.
const maxObject = v1.MaxSecretSize

// file is one file of a payload.
type file struct {
	data []byte
	mode fs.FileMode
	uid  int // -1: root
}

// payload is the content of a volume: files by their path, which is clean and stays within the volume.
type payload map[string]file

// add adds a file. The path is untrusted; a later file of the same path wins.
func (p payload) add(at string, f file) error {
	clean, err := cleanPath(at)
	if err == nil && (clean == "." || strings.HasPrefix(clean, "..")) { // names that the atomicWriter uses
		err = errors.New("it must not begin with '..', nor be the folder itself")
	}
	if err == nil && strings.Count(clean, "/") >= podfile.MaxDepth { // deeper files could not be compared, see atomicWriter.contains
		err = fmt.Errorf("it has more than %d folders", podfile.MaxDepth)
	}
	if err != nil {
		return fmt.Errorf("%q can't be the path of a file: %w", at, err)
	}
	p[clean] = f
	return nil
}

// check returns an error if a path would have to be a file and a folder.
func (p payload) check() error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, both := p[dir]; both {
				return fmt.Errorf("%q is to be a file, and with %q a folder", dir, name)
			}
		}
	}
	return nil
}

// cleanPath returns a relative path in its shortest form. It refuses paths that lead out of the folder
// that they are joined to.
func cleanPath(at string) (string, error) {
	switch {
	case at == "":
		return "", errors.New("it is empty")
	case len(at) > maxPath:
		return "", fmt.Errorf("it is longer than %d bytes", maxPath)
	case strings.ContainsRune(at, 0):
		return "", errors.New("it has a zero byte")
	case path.IsAbs(at):
		return "", errors.New("it must be relative")
	}
	for part := range strings.SplitSeq(at, "/") {
		if part == ".." {
			return "", errors.New("it must not contain '..'")
		}
		if len(part) > maxComponent {
			return "", fmt.Errorf("a part of it is longer than %d bytes", maxComponent)
		}
	}
	return path.Clean(at), nil
}

// keys adds the data of an object as files: all keys under their own names, or those in items. what
// names the object in errors.
func (p payload) keys(what string, data map[string][]byte, items []v1.KeyToPath, defaultMode *int32, optional *bool) error {
	size := 0
	for _, value := range data {
		size += len(value)
	}
	if size > maxObject {
		return fmt.Errorf("%s holds %d bytes: %d is the most", what, size, maxObject)
	}
	if len(items) == 0 {
		for key := range data {
			items = append(items, v1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return missingf("%s has no key %q", what, item.Key)
		}
		mode, err := fileMode(item.Mode, defaultMode)
		if err == nil {
			err = p.add(item.Path, file{data: value, mode: mode, uid: -1})
		}
		if err != nil {
			return fmt.Errorf("%s, key %q: %w", what, item.Key, err)
		}
	}
	return nil
}

// fileMode returns the first mode that is set, or 0644.
func fileMode(modes ...*int32) (fs.FileMode, error) {
	for _, m := range modes {
		if m == nil {
			continue
		}
		if *m < 0 || *m > 0o777 {
			return 0, fmt.Errorf("mode %#o is not between 0 and 0777", *m)
		}
		return fs.FileMode(*m), nil
	}
	return 0o644, nil
}
