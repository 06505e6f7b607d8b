package client

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// errEmpty says that an archive has nothing in it.
var errEmpty = errors.New("nothing came out of the container")

// keptMode are the bits of a mode that are copied: no setuid, since owners are not.
const keptMode = fs.ModePerm

// unpack writes an archive below root. What it calls base is called name there.
// The archive comes from a container, which may be up to anything: root lets
// nothing be written elsewhere, whatever names and links say.
func unpack(from io.Reader, root *os.Root, base, name string, warn func(string)) error {
	u := unpacking{root: root, warn: warn, modes: map[string]fs.FileMode{}}
	archive := tar.NewReader(from)
	for n := 0; ; n++ {
		header, err := archive.Next()
		switch {
		case err == io.EOF && n == 0:
			return errEmpty
		case err == io.EOF:
			return u.setModes()
		case err != nil:
			return fmt.Errorf("read what the container sends: %w", err)
		}
		to, ok := rename(header.Name, base, name)
		if !ok {
			return fmt.Errorf("the container sends %q, which is not below what was asked for: not copied", header.Name)
		}
		if err := u.entry(archive, header, to, base, name); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Join(root.Name(), to), err)
		}
	}
}

// rename returns the path of an entry below name instead of base, or that it is
// not below base.
func rename(entry, base, name string) (string, bool) {
	entry, base = path.Clean(entry), path.Clean(base)
	if base == "." {
		entry = path.Join("x", entry)
		base = "x"
	}
	if entry == base {
		return name, filepath.IsLocal(name)
	}
	rest, below := strings.CutPrefix(entry, base+"/")
	to := path.Join(name, rest)
	return to, below && filepath.IsLocal(to)
}

type unpacking struct {
	root  *os.Root
	warn  func(string)
	modes map[string]fs.FileMode // of folders, set at last: some can't be written to
}

func (u *unpacking) entry(archive io.Reader, h *tar.Header, to, base, name string) error {
	if err := u.folder(path.Dir(to)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if to != "." { // which is not of the archive
			u.modes[to] = h.FileInfo().Mode() & keptMode
		}
		return u.folder(to)
	case tar.TypeReg:
		return u.file(archive, to, h.FileInfo().Mode()&keptMode)
	case tar.TypeSymlink:
		if !staysBelow(name, to, h.Linkname) {
			u.warn(fmt.Sprintf("left out %s: a link to %s, which is not copied", to, h.Linkname))
			return nil
		}
		if err := u.root.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return u.root.Symlink(h.Linkname, to)
	case tar.TypeLink:
		other, ok := rename(h.Linkname, base, name)
		if !ok {
			u.warn(fmt.Sprintf("left out %s: the same file as %s, which is not copied", to, h.Linkname))
			return nil
		}
		if err := u.root.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return u.root.Link(other, to)
	}
	u.warn(fmt.Sprintf("left out %s: neither file, nor folder, nor link", to))
	return nil
}

// staysBelow tells whether a link leads to something below name. Links may lead
// through others, so a target that goes up after it went down is not trusted.
func staysBelow(name, link, target string) bool {
	if path.IsAbs(target) || path.Clean(target) != strings.TrimSuffix(target, "/") {
		return false
	}
	to := path.Join(path.Dir(link), target)
	return filepath.IsLocal(to) && (name == "." || to == name || strings.HasPrefix(to, name+"/"))
}

// folder makes a folder and those that it is in. None of them may be a link: no
// honest archive has anything below one.
func (u *unpacking) folder(to string) error {
	if to == "." {
		return nil
	}
	info, err := u.root.Lstat(to)
	switch {
	case err == nil && info.IsDir():
		return u.folder(path.Dir(to))
	case err == nil:
		return fmt.Errorf("%s is there already, and is not a folder", to)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := u.folder(path.Dir(to)); err != nil {
		return err
	}
	return u.root.Mkdir(to, 0o755)
}

func (u *unpacking) file(from io.Reader, to string, mode fs.FileMode) error {
	// A link in its place is not followed, but replaced.
	if info, err := u.root.Lstat(to); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		if err := u.root.Remove(to); err != nil {
			return err
		}
	}
	file, err := u.root.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Chmod(mode), file.Close())
}

func (u *unpacking) setModes() error {
	for dir, mode := range u.modes {
		if err := u.root.Chmod(dir, mode); err != nil {
			return fmt.Errorf("set the mode of %s: %w", dir, err)
		}
	}
	return nil
}

// pack writes the file or folder at from as an archive, in which it is called name.
// A link is followed if it is from itself, and else copied as it is.
func pack(to io.Writer, from, name string) error {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return fmt.Errorf("find what to copy: %w", err)
	}
	archive := tar.NewWriter(to)
	err = filepath.WalkDir(from, func(file string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		return packOne(archive, file, path.Join(name, filepath.ToSlash(rel)))
	})
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return archive.Close()
}

func packOne(archive *tar.Writer, file, name string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	var target string
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = os.Readlink(file); err != nil {
			return err
		}
	case !info.Mode().IsRegular() && !info.IsDir():
		return fmt.Errorf("%s is neither file, nor folder, nor link", file)
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	// Who owns it here says nothing there.
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	h.Mode &= int64(keptMode)
	if info.IsDir() {
		h.Name += "/"
	}
	if err := archive.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	// A file that grows meanwhile is copied as far as it was announced.
	_, err = io.CopyN(archive, content, h.Size)
	return errors.Join(err, content.Close())
}
