package volume

import (
	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
)

// medium is where the files of a volume with content are stored.
type medium int

const (
	onDisk   medium = iota
	inMemory        // for what must not be found on a stolen disk
)

// setupContent sets up a volume whose files are returned by build. After a failure, the content from
// before stays.
func (j *job) setupContent(kind volumekind.Kind, name string, on medium, optional bool, build func(payload) error) (place, error) {
	at := place{path: j.volumePath(kind.Dir(), name), dir: j.volumePath(kind.Dir(), name), readOnly: true, relabel: true, fixed: !optional}
	files := payload{}
	volume := atomicWriter{dir: at.path, group: j.group}
	err := build(files)
	if err == nil && on == inMemory {
		_, err = j.makeMemoryDir(kind, name, "tmpfs", "")
	}
	if err == nil && on == onDisk {
		_, err = j.makeDir(kind, name)
	}
	if err == nil {
		var changed bool
		if changed, err = volume.write(files); changed {
			j.m.cfg.Log.Debug("a volume has a new content", "pod", pod.Ref(j.pod), "volume", name)
		}
	}
	if err != nil && volume.current() == "" {
		return place{}, err
	}
	return at, err
}
