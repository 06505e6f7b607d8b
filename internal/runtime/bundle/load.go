package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// maxArchive bounds the size of an archive: it is larger than any image that fits on a machine of
// today.
const maxArchive = 64 << 30

// loadPattern is the pattern of the names of archives that are being received.
const loadPattern = "load-*.tar"

// Load imports an archive of images, and returns their names. An image that has only a
// tag is called localhost/NAME:tag. received is called when all of the archive was
// received, before it is imported.
func (r *Runtime) Load(ctx context.Context, name string, archive io.Reader, received func()) ([]string, error) {
	// The archive is read twice: by checkArchive, and by the import.
	f, err := os.CreateTemp(r.paths.tmp, loadPattern)
	if err != nil {
		return nil, fmt.Errorf("make room for the archive: %w", err)
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	n, err := io.Copy(f, io.LimitReader(archive, maxArchive+1))
	if err != nil {
		return nil, fmt.Errorf("receive the archive: %w", err)
	}
	if n > maxArchive {
		return nil, fmt.Errorf("the archive is larger than %d bytes", int64(maxArchive))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	received()
	if err := checkArchive(f); err != nil {
		return nil, err
	}
	c, err := r.newClient()
	if err != nil {
		return nil, err
	}
	defer c.close()
	return importImages(ctx, c, name, f)
}

// newClient returns a client that can import images.
func (r *Runtime) newClient() (*client, error) {
	c, err := newClient(r.paths.socket, r.log)
	if err != nil {
		return nil, err
	}
	c.hasImage = func(ctx context.Context, name string) (bool, error) { return r.cfg.HasImage(ctx, r.Endpoint(), name) }
	return c, nil
}

// importImages imports an archive that was checked, and returns when CRI lists its images.
func importImages(ctx context.Context, store imageStore, stem string, archive io.Reader) ([]string, error) {
	names, err := store.importArchive(ctx, archive, localPrefix(stem), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	if len(names) == 0 {
		return nil, errors.New("no image in it has a name: tag the image before it is saved")
	}
	return names, store.awaitImages(ctx, names)
}

// Archived returns the images whose archives are in the folder of a root directory. They
// must not be removed: they may be in no registry.
func Archived(root string) ([]string, error) {
	p, err := newPaths(root, root)
	if err != nil {
		return nil, err
	}
	record, err := readRecord(p.imported)
	if err != nil {
		return nil, fmt.Errorf("read which archives were imported: %w", err)
	}
	var names []string
	for _, t := range record {
		names = append(names, t.Images...)
	}
	slices.Sort(names)
	return names, nil
}
