package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
)

// File is a file, folder or symbolic link of a layer.
type File struct {
	Path string // without the leading slash
	// Mode has the permissions, with the setuid and sticky bits, and [fs.ModeDir] for a folder.
	Mode fs.FileMode
	Data []byte
	Link string // the target, if this is a link
}

// Layer is a layer of an image, ready to be pushed. Images may share it.
type Layer struct {
	packed []byte
	diffID string
}

// NewLayer makes a layer of files, which all belong to root. It is packed at that level of gzip.
func NewLayer(files []File, level int) (Layer, error) {
	var plain, packed bytes.Buffer
	archive := tar.NewWriter(&plain)
	for _, f := range files {
		if err := archive.WriteHeader(f.header()); err != nil {
			return Layer{}, fmt.Errorf("make a layer: file %s: %w", f.Path, err)
		}
		if _, err := archive.Write(f.Data); err != nil {
			return Layer{}, fmt.Errorf("make a layer: file %s: %w", f.Path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return Layer{}, fmt.Errorf("make a layer: %w", err)
	}
	packer, err := gzip.NewWriterLevel(&packed, level)
	if err != nil {
		return Layer{}, fmt.Errorf("make a layer: %w", err)
	}
	if _, err := packer.Write(plain.Bytes()); err != nil {
		return Layer{}, fmt.Errorf("make a layer: %w", err)
	}
	if err := packer.Close(); err != nil {
		return Layer{}, fmt.Errorf("make a layer: %w", err)
	}
	return Layer{packed: packed.Bytes(), diffID: digest(plain.Bytes())}, nil
}

// The bits of a mode that tar, unlike Go, keeps beside the permissions.
const (
	setuid = 0o4000
	sticky = 0o1000
)

func (f File) header() *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: int64(f.Mode.Perm()), Size: int64(len(f.Data))}
	if f.Mode&fs.ModeSetuid != 0 {
		h.Mode |= setuid
	}
	if f.Mode&fs.ModeSticky != 0 {
		h.Mode |= sticky
	}
	switch {
	case f.Link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
	case f.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, f.Path+"/"
	}
	return h
}
