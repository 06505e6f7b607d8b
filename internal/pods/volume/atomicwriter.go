package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/lib/podfile"
)

// The directory of a configMap, secret, downwardAPI or projected volume has the layout of the
// kubelet's AtomicWriter, which containers rely on:
//
//	..2026_01_31_12_00_00.123456789/  the files
//	..data -> ..2026_01_31_12_00_00.123456789
//	key -> ..data/key                 a link for each name at the top
//
// A change is written to a new directory; then a rename replaces ..data.
const (
	dataLink    = "..data"
	newDataLink = "..data_new"
)

// atomicWriter replaces all files of a volume at once. The group can read them; -1 stands for no
// group.
type atomicWriter struct {
	dir   string
	group int
}

// write makes p the content of the volume. It writes nothing if p is the content already.
func (c atomicWriter) write(p payload) (changed bool, err error) {
	if err := p.check(); err != nil {
		return false, err
	}
	current := c.current()
	if current == "" || !c.contains(current, p) {
		if current, err = c.writeDir(p); err != nil {
			return false, err
		}
		if err := c.swap(current); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, c.tidy(current, p)
}

// current returns the name of the directory that ..data points to, or "".
func (c atomicWriter) current() string {
	name, err := os.Readlink(filepath.Join(c.dir, dataLink))
	if err != nil || checkName(name) != nil || !strings.HasPrefix(name, "..") {
		return ""
	}
	return name
}

var errDiffers = errors.New("another content is wanted")

// contains reports whether a directory has the files of p and no others. A file that can't be read
// counts as different.
func (c atomicWriter) contains(name string, p payload) bool {
	root, err := podfile.OpenDir(c.dir, name)
	if err != nil {
		return false
	}
	defer root.Close()
	entries := len(p)
	for at := range p {
		entries += strings.Count(at, "/") // directories on the way to it
	}
	found := 0
	err = podfile.Walk(context.Background(), root, max(1, entries), func(e podfile.Entry) error {
		if e.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(root.Name(), filepath.Join(e.Dir.Name(), e.Name))
		if err != nil {
			return err
		}
		want, ok := p[rel]
		if !ok || !c.same(e, want) {
			return errDiffers
		}
		found++
		return nil
	})
	return err == nil && found == len(p)
}

func (c atomicWriter) same(e podfile.Entry, want file) bool {
	file, err := podfile.OpenRegularIn(e.Dir, e.Name, podfile.NoLinksNoMounts)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Mode() != c.mode(want.mode) || info.Size() != int64(len(want.data)) {
		return false
	}
	uid, gid := owner(info)
	if (want.uid >= 0 && uid != want.uid) || (c.group >= 0 && gid != c.group) {
		return false
	}
	have, err := podfile.ReadOpen(file, int64(len(want.data)))
	return err == nil && bytes.Equal(have, want.data)
}

// mode adds read permission for the group, if there is one.
func (c atomicWriter) mode(m fs.FileMode) fs.FileMode {
	if c.group >= 0 {
		return m | 0o440
	}
	return m
}

func (c atomicWriter) dirMode() fs.FileMode {
	if c.group >= 0 {
		return 0o755 | fs.ModeSetgid
	}
	return 0o755
}

// writeDir writes p to a new directory and returns its name.
func (c atomicWriter) writeDir(p payload) (string, error) {
	root, err := os.MkdirTemp(c.dir, time.Now().UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return "", fmt.Errorf("make a directory for the new content: %w", err)
	}
	err = setOwner(root, -1, c.group, c.dirMode())
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if err == nil {
			err = c.makeDirs(root, path.Dir(name), made)
		}
		if err == nil {
			err = c.writeFile(filepath.Join(root, name), p[name])
		}
	}
	if err != nil {
		_ = podfile.RemoveAll(c.dir, filepath.Base(root)) // it is tried again by the next tidy
		return "", fmt.Errorf("write the new content: %w", err)
	}
	return filepath.Base(root), nil
}

func (c atomicWriter) makeDirs(root, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := c.makeDirs(root, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	at := filepath.Join(root, dir)
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	return setOwner(at, -1, c.group, c.dirMode())
}

func (c atomicWriter) writeFile(at string, f file) error {
	if err := os.WriteFile(at, f.data, 0o600); err != nil {
		return err
	}
	return setOwner(at, f.uid, c.group, c.mode(f.mode))
}

// swap points ..data to another directory, by a rename.
func (c atomicWriter) swap(name string) error {
	link := filepath.Join(c.dir, newDataLink)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("show the new content: %w", err)
	}
	if err := os.Symlink(name, link); err != nil {
		return fmt.Errorf("show the new content: %w", err)
	}
	if err := os.Rename(link, filepath.Join(c.dir, dataLink)); err != nil {
		return fmt.Errorf("show the new content: %w", err)
	}
	return nil
}

// tidy makes the links at the top of the volume, and removes links and directories of earlier
// contents, also those that a crash has left.
func (c atomicWriter) tidy(current string, p payload) error {
	want := map[string]string{}
	for name := range p {
		top, _, _ := strings.Cut(name, "/")
		want[top] = path.Join(dataLink, top)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if err := c.link(name, want[name]); err != nil {
			return fmt.Errorf("show %q: %w", name, err)
		}
	}
	err := podfile.Each(c.dir, ".", func(e fs.DirEntry) error {
		name := e.Name()
		switch {
		case name == dataLink || name == current || want[name] != "":
			return nil
		case !strings.HasPrefix(name, "..") && e.Type()&fs.ModeSymlink == 0:
			return nil // made for a subPath
		}
		return podfile.RemoveAll(c.dir, name)
	})
	if err != nil {
		return fmt.Errorf("remove what is no longer in it: %w", err)
	}
	return nil
}

func (c atomicWriter) link(name, target string) error {
	at := filepath.Join(c.dir, name)
	have, err := os.Readlink(at)
	if err == nil && have == target {
		return nil
	}
	// An empty directory may be there, made for a subPath before the key was.
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, at)
}
