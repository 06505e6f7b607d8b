package measure

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
	"berth/internal/telemetry/metrics"
)

// VolumeSetUp is the hook of volume.Config.
func (w *Recorder) VolumeSetUp(v *v1.Volume, took time.Duration, err error) {
	kind := volumekind.Of(&v.VolumeSource)
	w.Metrics.VolumeSetUp(kind.Plugin(), kind.IsMigrated(), took, err)
}

// Volumes counts the volumes of pods by kind: those that a container mounts, and those of them that
// are set up. path returns the directory of a volume.
func Volumes(pods []*v1.Pod, path func(uid pod.UID, volume string) (string, bool)) map[metrics.Volumes]int {
	out := map[metrics.Volumes]int{}
	for _, p := range pods {
		wanted := mounted(&p.Spec)
		for i := range p.Spec.Volumes {
			v := &p.Spec.Volumes[i]
			// An image is nowhere but in the runtime.
			if !wanted[v.Name] || v.Image != nil {
				continue
			}
			name := volumekind.Of(&v.VolumeSource).Plugin()
			out[metrics.Volumes{Plugin: name}]++
			if _, ok := path(p.UID, v.Name); ok {
				out[metrics.Volumes{Plugin: name, SetUp: true}]++
			}
		}
	}
	return out
}

// mounted are the volumes that a container wants.
func mounted(s *v1.PodSpec) map[string]bool {
	out := map[string]bool{}
	for _, containers := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			for _, m := range containers[i].VolumeMounts {
				out[m.Name] = true
			}
			for _, d := range containers[i].VolumeDevices {
				out[d.Name] = true
			}
		}
	}
	return out
}
