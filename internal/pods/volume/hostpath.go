package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// setupHostPath checks a path once in the life of an agent: running containers go on if, for instance,
// a socket of the host is missing for a moment.
func setupHostPath(_ context.Context, j *job, v *v1.Volume) (place, error) {
	if at, ok := j.alreadySetUp(v.Name); ok {
		return at, nil
	}
	return j.hostPath(v.Name, v.HostPath)
}

func persistentHostPath(_ context.Context, j *job, volume string, pv *v1.PersistentVolume, _ bool) (place, error) {
	if len(mountOptions(pv)) > 0 {
		return place{}, errors.New("mount options are not supported for this volume type (hostPath)")
	}
	return j.hostPath(volume, pv.Spec.HostPath)
}

func (j *job) hostPath(volume string, source *v1.HostPathVolumeSource) (place, error) {
	if !filepath.IsAbs(source.Path) {
		return place{}, fmt.Errorf("hostPath %q is not an absolute path", source.Path)
	}
	path := filepath.Clean(source.Path)
	j.task.setStep(fmt.Sprintf("set up volume %q: look at %s", volume, path))
	want := v1.HostPathUnset
	if source.Type != nil {
		want = *source.Type
	}
	if err := checkHostPath(path, want); err != nil {
		return place{}, err
	}
	return place{path: path}, nil
}

// hostTypes are the checks for each type of hostPath.
var hostTypes = map[v1.HostPathType]struct {
	words string
	is    func(fs.FileMode) bool
}{
	v1.HostPathDirectory:         {"a directory", fs.FileMode.IsDir},
	v1.HostPathDirectoryOrCreate: {"a directory", fs.FileMode.IsDir},
	v1.HostPathFile:              {"a file", fs.FileMode.IsRegular},
	v1.HostPathFileOrCreate:      {"a file", fs.FileMode.IsRegular},
	v1.HostPathSocket:            {"a socket", func(m fs.FileMode) bool { return m&fs.ModeSocket != 0 }},
	v1.HostPathCharDev:           {"a character device", func(m fs.FileMode) bool { return m&fs.ModeCharDevice != 0 }},
	v1.HostPathBlockDev: {"a block device", func(m fs.FileMode) bool {
		return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0
	}},
}

// checkHostPath checks a path, and stats it even if its type does not matter: if it hangs, it hangs
// here and not in the runtime.
func checkHostPath(path string, want v1.HostPathType) error {
	rule, known := hostTypes[want]
	if !known && want != v1.HostPathUnset {
		return fmt.Errorf("hostPath type %q is not known", want)
	}
	info, err := os.Stat(path)
	if want == v1.HostPathUnset {
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the runtime makes it
			return fmt.Errorf("hostPath: %w", err)
		}
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		switch want {
		case v1.HostPathDirectoryOrCreate:
			return makeHostDir(path)
		case v1.HostPathFileOrCreate:
			return makeHostFile(path)
		}
		return fmt.Errorf("hostPath type check failed: %s is not %s: it does not exist", path, rule.words)
	}
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	if !rule.is(info.Mode()) {
		return fmt.Errorf("hostPath type check failed: %s is not %s", path, rule.words)
	}
	return nil
}

func makeHostDir(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("hostPath: %w", err)
	}
	return nil
}

// makeHostFile makes a file, but not its directory. O_NONBLOCK: a pipe that was put there meanwhile
// would block the open.
func makeHostFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return fmt.Errorf("hostPath: %w", err)
	}
	return f.Close()
}
