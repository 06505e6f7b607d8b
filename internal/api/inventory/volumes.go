package inventory

import (
	"cmp"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/lib/volumekind"
)

// Place has the facts of the directory of a volume from the disk. An unknown one is zero.
type Place struct {
	There bool
	Since time.Time
	// Capacity and Used are set for a volume that has a file system of its own.
	Capacity, Used *int64
}

// Volumes returns the volumes of pods. stat is called for directories that berth
// has made itself, and never for other directories, whose file systems may hang.
func Volumes(pods []*v1.Pod, podsDir string, stat func(path string) Place) []api.Volume {
	var out []api.Volume
	for _, p := range pods {
		for i := range p.Spec.Volumes {
			out = append(out, volume(p, &p.Spec.Volumes[i], podsDir, stat))
		}
	}
	return out
}

func volume(p *v1.Pod, v *v1.Volume, podsDir string, stat func(string) Place) api.Volume {
	kind := volumekind.Of(&v.VolumeSource)
	out := api.Volume{
		Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Name: v.Name,
		Kind: cmp.Or(string(kind), "unknown"), Source: volumekind.SourceOf(&v.VolumeSource),
	}
	if v.HostPath != nil {
		out.Path = v.HostPath.Path
	}
	if kind.OwnDir() {
		path := filepath.Join(podsDir, string(p.UID), "volumes", kind.Dir(), v.Name)
		if found := stat(path); found.There {
			out.Path, out.Capacity, out.Used = path, found.Capacity, found.Used
			if !found.Since.IsZero() {
				out.Since = &found.Since
			}
		}
	}
	if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && out.Capacity == nil {
		out.Capacity = new(v.EmptyDir.SizeLimit.Value())
	}
	return out
}
