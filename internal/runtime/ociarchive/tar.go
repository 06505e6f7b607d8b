package ociarchive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// entry is one file or folder of a tar archive. Folders have no data and a name
// that ends in a slash.
type entry struct {
	name string
	mode fs.FileMode
	data []byte
}

// layerOf returns the files as an uncompressed layer, sorted by name, so that a folder
// comes before its files.
func layerOf(files []File) ([]byte, error) {
	var entries []entry
	made := map[string]bool{}
	for _, f := range files {
		for _, dir := range parents(f.Path) {
			if !made[dir] {
				made[dir] = true
				entries = append(entries, entry{name: dir[1:] + "/", mode: 0o755})
			}
		}
		entries = append(entries, entry{name: f.Path[1:], mode: f.Mode, data: f.Data})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })

	var layer bytes.Buffer
	if err := writeTar(&layer, entries); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

func writeTar(w io.Writer, entries []entry) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		header := tar.Header{
			Typeflag: tar.TypeReg,
			Name:     e.name,
			Mode:     int64(e.mode),
			Size:     int64(len(e.data)),
			ModTime:  time.Unix(0, 0),
		}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := archive.Write(e.data); err != nil {
			return err
		}
	}
	return archive.Close()
}
