// Package ociarchive writes container images as tar archives that a runtime can
// import: no registry and no image builder is needed. Berth makes its sandbox
// image with it, and the examples and tests make theirs.
//
// An image has one layer, made of files that are held in memory. The same image
// always gives the same bytes: they depend neither on the clock nor on the machine,
// but for its architecture.
package ociarchive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Image is the content of an archive.
type Image struct {
	// Tag is the full name by which pods ask for the image, such as
	// localhost/hello:1.
	Tag   string
	Files []File

	Entrypoint   []string
	Cmd          []string
	Env          []string // NAME=value
	ExposedPorts []string // such as 8080/tcp
	User         string
	StopSignal   string
}

// File is one regular file of an image. It belongs to root; folders above it are
// made as they are needed.
type File struct {
	Path string // absolute, within the image
	Mode fs.FileMode
	Data []byte
}

// Write writes img as an OCI image layout.
func Write(w io.Writer, img Image) error {
	return write(w, img, ociEntries)
}

// WriteDocker writes img in the older format, that of `docker save`.
func WriteDocker(w io.Writer, img Image) error {
	return write(w, img, dockerEntries)
}

func write(w io.Writer, img Image, format func(tag string, layer, config []byte) ([]entry, error)) error {
	if err := img.validate(); err != nil {
		return fmt.Errorf("image %q: %w", img.Tag, err)
	}
	layer, err := layerOf(img.Files)
	if err != nil {
		return fmt.Errorf("image %q: make layer: %w", img.Tag, err)
	}
	config, err := configOf(img, layer)
	if err != nil {
		return fmt.Errorf("image %q: make config: %w", img.Tag, err)
	}
	entries, err := format(img.Tag, layer, config)
	if err != nil {
		return fmt.Errorf("image %q: make manifest: %w", img.Tag, err)
	}
	if err := writeTar(w, entries); err != nil {
		return fmt.Errorf("image %q: write archive: %w", img.Tag, err)
	}
	return nil
}

func (img Image) validate() error {
	if name, tag := splitTag(img.Tag); !strings.Contains(name, "/") || tag == "" || strings.Contains(img.Tag, "@") {
		return errors.New("give the tag in full, such as localhost/hello:1")
	}
	for _, e := range img.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("environment %q is not of the form NAME=value", e)
		}
	}
	seen := map[string]bool{}
	for _, f := range img.Files {
		if err := f.validate(); err != nil {
			return err
		}
		if seen[f.Path] {
			return fmt.Errorf("file %s is there twice", f.Path)
		}
		seen[f.Path] = true
	}
	for _, f := range img.Files {
		for _, dir := range parents(f.Path) {
			if seen[dir] {
				return fmt.Errorf("file %s is also the folder of %s", dir, f.Path)
			}
		}
	}
	return nil
}

func (f File) validate() error {
	if f.Path == "/" || !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
		return fmt.Errorf("file %q: the path within the image must be absolute and plain, such as /bin/hello", f.Path)
	}
	if f.Mode != f.Mode.Perm() {
		return fmt.Errorf("file %s: mode %v is not that of a regular file", f.Path, f.Mode)
	}
	return nil
}

// splitTag splits localhost:5000/hello:1 at its last colon. A colon before a port does not
// count: a slash follows it.
func splitTag(ref string) (name, tag string) {
	i := strings.LastIndexByte(ref, ':')
	if i < 0 || strings.Contains(ref[i:], "/") {
		return ref, ""
	}
	return ref[:i], ref[i+1:]
}

// parents returns the folders above an absolute path, the outermost first.
func parents(file string) []string {
	var dirs []string
	for i := 1; i < len(file); i++ {
		if file[i] == '/' {
			dirs = append(dirs, file[:i])
		}
	}
	return dirs
}
