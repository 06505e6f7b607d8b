package volume

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/podfile"
)

// maxRead bounds the files that environment variables are read from (fileKeyRef).
const maxRead = 64 << 10

// File returns the content of a file in a volume of p, after Setup. A container may have written it: a
// path that leads out of the volume, and all but regular files, are refused. If the file does not
// exist, errors.Is(err, fs.ErrNotExist) holds.
func (m *Manager) File(ctx context.Context, p *v1.Pod, volume, path string) (string, error) {
	at, ok := m.loadPlace(p.UID, volume)
	if !ok {
		return "", &Error{Volume: volume, Err: errors.New("it is not set up: the pod does not have it, or it failed")}
	}
	if at.image != "" {
		return "", &Error{Volume: volume, Err: errors.New("a file in an image can't be read")}
	}
	clean, err := cleanPath(path)
	if err != nil {
		return "", &Error{Volume: volume, Err: fmt.Errorf("path %q: %w", path, err)}
	}
	return guarded(ctx, m.guard, p.UID, func(_ context.Context, t *task) (string, error) {
		t.setStep(fmt.Sprintf("read %s in volume %q", clean, volume))
		return readIn(at.path, clean)
	})
}

func readIn(dir, path string) (string, error) {
	root, err := openDir(dir)
	if err != nil {
		return "", fmt.Errorf("open the volume: %w", err)
	}
	defer root.Close()
	file, err := podfile.OpenRegularIn(root, path, podfile.Within)
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return "", errors.New("it leads out of the volume")
	case errors.Is(err, podfile.ErrNotRegular):
		return "", errors.New("it is not a plain file")
	case err != nil:
		return "", err
	}
	defer file.Close()
	data, err := podfile.ReadOpen(file, maxRead)
	if errors.Is(err, podfile.ErrTooLarge) {
		return "", fmt.Errorf("it is larger than %d KiB", maxRead>>10)
	}
	return string(data), err
}
