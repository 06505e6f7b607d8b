package volume

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestGroupsThatMayUseAVolume(t *testing.T) {
	for text, want := range map[string][]int64{"4711": {4711}, "0": {0}, "": nil, "staff": nil, "-1": nil, "4294967296": nil} {
		w := newWorld(t)
		_, pv := w.bind(onHost(t.TempDir()))
		pv.Annotations = map[string]string{"pv.beta.kubernetes.io/gid": text}
		p := podWith(claimVolume("data"))
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "again", VolumeSource: claimVolume("data")}, v1.Volume{Name: "own", VolumeSource: emptyDir("", "")})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "again", MountPath: "/again"}, v1.VolumeMount{Name: "own", MountPath: "/own"})
		w.setup(p)
		w.setup(p)
		if got := w.m.Groups(p.UID); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		// the same is found after a restart
		w.restart()
		w.setup(p)
		if got := w.m.Groups(p.UID); !slices.Equal(got, want) {
			t.Errorf("%q, after a restart: %v, want %v", text, got, want)
		}
	}
}
