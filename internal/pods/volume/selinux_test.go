package volume

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pods/csi"
)

func TestTheLabelThatAVolumeIsMountedWith(t *testing.T) {
	level := func(l string) *v1.SELinuxOptions { return &v1.SELinuxOptions{Level: l} }
	once, alone := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	for name, test := range map[string]struct {
		pod        *v1.SELinuxOptions
		containers [3]*v1.SELinuxOptions // an init container and a container with the volume, and a container without it
		policy     v1.PodSELinuxChangePolicy
		modes      []v1.PersistentVolumeAccessMode
		gate       bool
		want, err  string
	}{
		"of a pod":                          {pod: level("s0:c1"), modes: alone, want: "file:s0:c1"},
		"of the containers":                 {containers: [3]*v1.SELinuxOptions{level("s0:c2"), level("s0:c2"), level("s0:c9")}, pod: level("s0:c1"), modes: alone, want: "file:s0:c2"},
		"of the only container with one":    {containers: [3]*v1.SELinuxOptions{nil, level("s0:c2"), nil}, modes: alone, want: "file:s0:c2"},
		"none":                              {modes: alone},
		"only a container that lacks it":    {containers: [3]*v1.SELinuxOptions{nil, nil, level("s0:c9")}, modes: alone},
		"without a level":                   {pod: &v1.SELinuxOptions{Type: "web_t"}, modes: alone},
		"by a policy":                       {pod: level("s0:c1"), policy: v1.SELinuxChangePolicyMountOption, modes: alone, want: "file:s0:c1"},
		"files are relabelled":              {pod: level("s0:c1"), policy: v1.SELinuxChangePolicyRecursive, modes: alone},
		"for several pods":                  {pod: level("s0:c1"), modes: once},
		"for several modes":                 {pod: level("s0:c1"), modes: append(alone[:1:1], v1.ReadOnlyMany)},
		"for several pods by the gate":      {pod: level("s0:c1"), modes: once, gate: true, want: "file:s0:c1"},
		"several labels":                    {containers: [3]*v1.SELinuxOptions{level("s0:c2"), level("s0:c3"), nil}, modes: alone, err: "multiple SELinux labels found: file:s0:c2,file:s0:c3"},
		"several labels that are to change": {containers: [3]*v1.SELinuxOptions{level("s0:c2"), level("s0:c3"), nil}, policy: v1.SELinuxChangePolicyRecursive, modes: alone},
		"several processes, one file label": {containers: [3]*v1.SELinuxOptions{{Type: "a_t", Level: "s0:c2"}, {Type: "b_t", Level: "s0:c2"}, nil}, modes: alone, want: "file:s0:c2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := podWith(claimVolume("data"))
			first, other := p.Spec.Containers[0], v1.Container{Name: "other"}
			p.Spec.InitContainers = []v1.Container{*first.DeepCopy()}
			p.Spec.Containers = append(p.Spec.Containers, other)
			for i, c := range []*v1.Container{&p.Spec.InitContainers[0], &p.Spec.Containers[0], &p.Spec.Containers[1]} {
				c.SecurityContext = &v1.SecurityContext{SELinuxOptions: test.containers[i]}
			}
			p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: test.pod}
			if test.policy != "" {
				p.Spec.SecurityContext.SELinuxChangePolicy = &test.policy
			}
			got, err := labelOfFiles(p, func(volume string) bool { return volume == "vol" }, func(o v1.SELinuxOptions) (string, error) { return "file:" + o.Level, nil })
			if !mountsWithLabel(test.modes, test.gate) {
				got, err = "", nil
			}
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, test.want, test.err)
			}
		})
	}
}

func TestAVolumeWithALabelIsNotRelabelled(t *testing.T) {
	w := newWorld(t)
	w.cfg.FileLabel = func(o v1.SELinuxOptions) (string, error) { return "file:" + o.Level, nil }
	w.restart()
	_, pv := w.bind(diskSource())
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	p := podWith(claimVolume("data"))
	p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: "s0:c1"}}
	for _, labelled := range []bool{true, false} { // by a driver that can, and one that can't
		w.csi.labels = labelled
		w.restart()
		w.setup(p)
		mounts, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
		if err != nil || mounts[0].SELinuxRelabel == labelled {
			t.Error(labelled, mounts, err)
		}
	}
	if label, err := w.csi.requests[0].SELinuxLabel(); label != (csi.Label{Files: "file:s0:c1", Mount: true}) || err != nil {
		t.Error(label, err)
	}
}
