package inventory

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
)

// Place is what the disk tells of the directory of a volume. What it does not tell
// is zero.
type Place struct {
	There bool
	Since time.Time
	// Capacity and Used are those of a volume that has a file system of its own.
	Capacity, Used *int64
}

// kind is how one kind of volume is shown.
type kind struct {
	name   string
	dir    string // below volumes/; empty: nothing is made for it
	is     func(*v1.VolumeSource) bool
	source func(*v1.VolumeSource) string
}

// The directories are named as the kubelet names them.
func kinds() []kind {
	return []kind{
		{"emptyDir", "kubernetes.io~empty-dir", func(s *v1.VolumeSource) bool { return s.EmptyDir != nil }, emptyDir},
		{"hostPath", "", func(s *v1.VolumeSource) bool { return s.HostPath != nil }, func(s *v1.VolumeSource) string { return s.HostPath.Path }},
		{"configMap", "kubernetes.io~configmap", func(s *v1.VolumeSource) bool { return s.ConfigMap != nil }, func(s *v1.VolumeSource) string { return s.ConfigMap.Name }},
		{"secret", "kubernetes.io~secret", func(s *v1.VolumeSource) bool { return s.Secret != nil }, func(s *v1.VolumeSource) string { return s.Secret.SecretName }},
		{"downwardAPI", "kubernetes.io~downward-api", func(s *v1.VolumeSource) bool { return s.DownwardAPI != nil }, func(*v1.VolumeSource) string { return "the pod" }},
		{"projected", "kubernetes.io~projected", func(s *v1.VolumeSource) bool { return s.Projected != nil }, projected},
		{"persistentVolumeClaim", "", func(s *v1.VolumeSource) bool { return s.PersistentVolumeClaim != nil }, func(s *v1.VolumeSource) string {
			return s.PersistentVolumeClaim.ClaimName
		}},
		{"ephemeral", "", func(s *v1.VolumeSource) bool { return s.Ephemeral != nil }, func(*v1.VolumeSource) string { return "a claim of the pod" }},
		{"csi", "", func(s *v1.VolumeSource) bool { return s.CSI != nil }, func(s *v1.VolumeSource) string { return s.CSI.Driver }},
		{"nfs", "", func(s *v1.VolumeSource) bool { return s.NFS != nil }, func(s *v1.VolumeSource) string { return s.NFS.Server + ":" + s.NFS.Path }},
		{"image", "", func(s *v1.VolumeSource) bool { return s.Image != nil }, func(s *v1.VolumeSource) string { return s.Image.Reference }},
	}
}

// Volumes returns the volumes of pods. look is asked about directories that berth
// made itself, and never about those of others, whose file systems may hang.
func Volumes(pods []*v1.Pod, podsDir string, look func(path string) Place) []api.Volume {
	var out []api.Volume
	for _, p := range pods {
		for i := range p.Spec.Volumes {
			out = append(out, volume(p, &p.Spec.Volumes[i], podsDir, look))
		}
	}
	return out
}

func volume(p *v1.Pod, v *v1.Volume, podsDir string, look func(string) Place) api.Volume {
	out := api.Volume{Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Name: v.Name, Kind: "unknown"}
	for _, k := range kinds() {
		if !k.is(&v.VolumeSource) {
			continue
		}
		out.Kind, out.Source = k.name, k.source(&v.VolumeSource)
		if v.HostPath != nil {
			out.Path = v.HostPath.Path
		}
		if k.dir == "" {
			break
		}
		path := filepath.Join(podsDir, string(p.UID), "volumes", k.dir, v.Name)
		found := look(path)
		if !found.There {
			break
		}
		out.Path, out.Capacity, out.Used = path, found.Capacity, found.Used
		if !found.Since.IsZero() {
			out.Since = &found.Since
		}
		break
	}
	if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && out.Capacity == nil {
		out.Capacity = new(v.EmptyDir.SizeLimit.Value())
	}
	return out
}

func emptyDir(s *v1.VolumeSource) string {
	return strings.ToLower(cmp.Or(string(s.EmptyDir.Medium), "disk"))
}

func projected(s *v1.VolumeSource) string {
	var parts []string
	for _, p := range s.Projected.Sources {
		switch {
		case p.ConfigMap != nil:
			parts = append(parts, "configMap "+p.ConfigMap.Name)
		case p.Secret != nil:
			parts = append(parts, "secret "+p.Secret.Name)
		case p.ServiceAccountToken != nil:
			parts = append(parts, "token")
		case p.DownwardAPI != nil:
			parts = append(parts, "the pod")
		default:
			parts = append(parts, "others")
		}
	}
	return strings.Join(parts, ", ")
}
