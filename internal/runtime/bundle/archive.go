package bundle

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

var errBroken = errors.New("not an OCI or docker archive, or not complete")

// maxIndex bounds the size of the index that is read from an archive. Real ones are far smaller.
const maxIndex = 4 << 20

// checkArchive reads through an archive before containerd does, and leaves it at its
// start. It refuses an archive that is cut off, and an archive whose index gives an image
// a name without a host: containerd would store the image under that name, CRI would
// look for a longer one, and from then on fail on all names of that image.
func checkArchive(archive io.ReadSeeker) error {
	r, err := unzipped(archive)
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	files := tar.NewReader(r)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		if path.Clean(header.Name) != "index.json" {
			continue
		}
		names, err := indexNames(io.LimitReader(files, maxIndex))
		if err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		for _, name := range names {
			if shortName(name) {
				return fmt.Errorf("image name %q has no host in it: save the image as localhost/%s, and name it so in pods", name, name)
			}
		}
	}
	_, err = archive.Seek(0, io.SeekStart)
	return err
}

// unzipped returns a reader of the uncompressed archive. An archive that is not compressed
// is returned as it is: its reader can skip over layers without reading them.
func unzipped(archive io.ReadSeeker) (io.Reader, error) {
	var magic [2]byte
	if _, err := io.ReadFull(archive, magic[:]); err != nil {
		return nil, err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if magic != [2]byte{0x1f, 0x8b} {
		return archive, nil
	}
	return gzip.NewReader(bufio.NewReader(archive))
}

// indexNames returns the names in an OCI index that are more than a tag.
func indexNames(r io.Reader) ([]string, error) {
	var index struct {
		Manifests []struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	if err := json.NewDecoder(r).Decode(&index); err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}
	var names []string
	for _, m := range index.Manifests {
		name := m.Annotations["io.containerd.image.name"]
		if name == "" {
			name = m.Annotations["org.opencontainers.image.ref.name"]
			if !strings.ContainsAny(name, "/:@") {
				continue
			}
		}
		names = append(names, name)
	}
	return names, nil
}

// shortName reports whether a reference has no host.
func shortName(ref string) bool {
	host, _, found := strings.Cut(ref, "/")
	return !found || (!strings.ContainsAny(host, ".:") && host != "localhost")
}
