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

// errEmpty says that an archive has no entries.
var errEmpty = errors.New("nothing came out of the container")

// keptMode are the mode bits that are copied. Owners are not copied, so setuid must not be either.
const keptMode = fs.ModePerm

// unpack unpacks an archive below root. The entry base of the archive gets the name name.
// The archive comes from a container and is not trusted: root keeps names and links from
// writing anywhere else.
func unpack(from io.Reader, root *os.Root, base, name string, warn func(string)) error {
	u := unpacker{root: root, warn: warn, modes: map[string]fs.FileMode{}}
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
		if err := u.writeEntry(archive, header, to, base, name); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Join(root.Name(), to), err)
		}
	}
}

// rename replaces base by name in the path of an entry. It returns false if the entry is not below
// base.
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

// unpacker writes the entries of one archive.
type unpacker struct {
	root  *os.Root
	warn  func(string)
	modes map[string]fs.FileMode // of folders, set at the end: some folders are not writable
}

func (u *unpacker) writeEntry(archive io.Reader, h *tar.Header, to, base, name string) error {
	if err := u.makeFolder(path.Dir(to)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if to != "." { // the destination keeps its mode
			u.modes[to] = h.FileInfo().Mode() & keptMode
		}
		return u.makeFolder(to)
	case tar.TypeReg:
		return u.writeFile(archive, to, h.FileInfo().Mode()&keptMode)
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

// staysBelow reports whether the target of a symbolic link is below name. A target with ".." in its
// middle is refused, since the part before it may be a link itself.
func staysBelow(name, link, target string) bool {
	if path.IsAbs(target) || path.Clean(target) != strings.TrimSuffix(target, "/") {
		return false
	}
	to := path.Join(path.Dir(link), target)
	return filepath.IsLocal(to) && (name == "." || to == name || strings.HasPrefix(to, name+"/"))
}

// makeFolder makes a folder and its parents. None of them may be a symbolic link: archives of tar
// have no entries below links.
func (u *unpacker) makeFolder(to string) error {
	if to == "." {
		return nil
	}
	info, err := u.root.Lstat(to)
	switch {
	case err == nil && info.IsDir():
		return u.makeFolder(path.Dir(to))
	case err == nil:
		return fmt.Errorf("%s is there already, and is not a folder", to)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := u.makeFolder(path.Dir(to)); err != nil {
		return err
	}
	return u.root.Mkdir(to, 0o755)
}

func (u *unpacker) writeFile(from io.Reader, to string, mode fs.FileMode) error {
	// An existing symbolic link is replaced, not followed.
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

func (u *unpacker) setModes() error {
	for dir, mode := range u.modes {
		if err := u.root.Chmod(dir, mode); err != nil {
			return fmt.Errorf("set the mode of %s: %w", dir, err)
		}
	}
	return nil
}

// pack writes the file or folder at from as an archive, under the name name. If from is a symbolic
// link, it is followed; links below from are copied as links.
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
		return packEntry(archive, file, path.Join(name, filepath.ToSlash(rel)))
	})
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return archive.Close()
}

func packEntry(archive *tar.Writer, file, name string) error {
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
	// The owner on this machine means nothing in the container.
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
	// Of a file that grows meanwhile, the size in the header is copied.
	_, err = io.CopyN(archive, content, h.Size)
	return errors.Join(err, content.Close())
}
