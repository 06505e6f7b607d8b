package measure

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/telemetry/metrics"
)

// VolumeSetUp is the hook of volume.Config.
func (w *Recorder) VolumeSetUp(v *v1.Volume, took time.Duration, err error) {
	w.Metrics.VolumeSetUp(plugin(&v.VolumeSource), took, err)
}

// Volumes counts the volumes of pods by their kind: those that a container wants, and
// those of them that are there. path tells where a volume is.
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
			name := plugin(&v.VolumeSource)
			out[metrics.Volumes{Plugin: name}]++
			if _, ok := path(p.UID, v.Name); ok {
				out[metrics.Volumes{Plugin: name, There: true}]++
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

// plugin is what the kubelet calls the kind of a volume. What is behind a claim is not
// looked up for that.
func plugin(s *v1.VolumeSource) string {
	name := "unknown"
	switch {
	case s.EmptyDir != nil:
		name = "empty-dir"
	case s.HostPath != nil:
		name = "host-path"
	case s.ConfigMap != nil:
		name = "configmap"
	case s.Secret != nil:
		name = "secret"
	case s.DownwardAPI != nil:
		name = "downward-api"
	case s.Projected != nil:
		name = "projected"
	case s.PersistentVolumeClaim != nil, s.Ephemeral != nil:
		name = "persistent-claim"
	case s.CSI != nil:
		name = "csi"
	case s.NFS != nil:
		name = "nfs"
	case s.Image != nil:
		name = "image"
	}
	return "kubernetes.io/" + name
}
