package measure

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
	"berth/internal/telemetry/metrics"
)

// VolumeSetUp is the hook of volume.Config.
func (w *Recorder) VolumeSetUp(p *v1.Pod, v *v1.Volume, took time.Duration, err error) {
	kind := volumekind.Of(&v.VolumeSource)
	w.Metrics.VolumeSetUp(kind.Plugin(), kind.IsMigrated(), took, err)
	if seen := pod.FirstSeen(p); err == nil && !seen.IsZero() {
		w.Metrics.VolumeReady(kind.Plugin(), time.Since(seen))
	}
}

// countImageVolumes counts the image volumes of a container that was created, or could not be.
func (w *Recorder) countImageVolumes(p *v1.Pod, container string, err error) {
	images := map[string]bool{}
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Image != nil {
			images[p.Spec.Volumes[i].Name] = true
		}
	}
	if len(images) == 0 {
		return
	}
	mounted, failed := 0, 0
	for _, m := range mountsOf(&p.Spec, container) {
		switch {
		case !images[m.Name]:
		case err == nil:
			mounted++
		case strings.Contains(err.Error(), crierrors.ErrImageVolumeMountFailed.Error()):
			failed++
		}
	}
	w.Metrics.ImageVolumes(len(images), mounted, failed)
}

func mountsOf(s *v1.PodSpec, container string) []v1.VolumeMount {
	for _, containers := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			if containers[i].Name == container {
				return containers[i].VolumeMounts
			}
		}
	}
	return nil
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
