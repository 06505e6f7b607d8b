package review

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// warnings are about what is allowed, and is seldom meant.
func warnings(p *v1.Pod) []string {
	var out []string
	s := &p.Spec
	if len(s.NodeSelector) > 0 || s.Affinity != nil || len(s.TopologySpreadConstraints) > 0 {
		out = append(out, "spec.nodeSelector, affinity and topologySpreadConstraints mean nothing without a cluster: the pod runs where its manifest is")
	}
	if s.TerminationGracePeriodSeconds != nil && *s.TerminationGracePeriodSeconds == 0 {
		out = append(out, "spec.terminationGracePeriodSeconds is 0: the containers are killed and can't finish their work")
	}
	for _, v := range s.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumMemory && v.EmptyDir.SizeLimit == nil && !limited(s) {
			out = append(out, fmt.Sprintf("volume %s is in memory and has no limit: set emptyDir.sizeLimit", v.Name))
		}
		if !mounted(s, v.Name) {
			out = append(out, fmt.Sprintf("volume %s is mounted by no container", v.Name))
		}
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		if floats(c.Image) {
			out = append(out, fmt.Sprintf("container %s: image %s may be another one tomorrow: give it a tag other than latest, or a digest", c.Name, c.Image))
		}
	}
	return out
}

// floats reports whether the name of an image says nothing of its version.
func floats(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return !tagged || tag == "latest"
}

// limited reports whether all containers have a limit for their memory.
func limited(s *v1.PodSpec) bool {
	return !slices.ContainsFunc(s.Containers, func(c v1.Container) bool {
		_, has := c.Resources.Limits[v1.ResourceMemory]
		return !has
	})
}

func mounted(s *v1.PodSpec, volume string) bool {
	return slices.ContainsFunc(slices.Concat(s.InitContainers, s.Containers), func(c v1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume }) ||
			slices.ContainsFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return d.Name == volume })
	})
}
