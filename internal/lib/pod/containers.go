package pod

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// ContainerSpec returns the spec of the container, init container or ephemeral container with
// that name, or nil. Names are unique among all containers of a pod.
func ContainerSpec(p *v1.Pod, name string) *v1.Container {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return &p.Spec.Containers[i]
		}
	}
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == name {
			return &p.Spec.InitContainers[i]
		}
	}
	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == name {
			spec := v1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			return &spec
		}
	}
	return nil
}

// EphemeralTarget returns the name of the container whose process namespace an ephemeral
// container joins, or "".
func EphemeralTarget(p *v1.Pod, name string) string {
	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == name {
			return p.Spec.EphemeralContainers[i].TargetContainerName
		}
	}
	return ""
}

// IsEphemeral reports whether a container of p is an ephemeral container.
func IsEphemeral(p *v1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return c.Name == name })
}

// IsInit reports whether a container of p is an init container or a sidecar.
func IsInit(p *v1.Pod, name string) bool {
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == name {
			return true
		}
	}
	return false
}

// IsSidecar reports whether an init container is a sidecar: it goes on beside the containers.
func IsSidecar(initContainer *v1.Container) bool {
	return initContainer.RestartPolicy != nil && *initContainer.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// HasDevice reports whether a container of the pod has the volume of that name as a block device.
func HasDevice(p *v1.Pod, volume string) bool {
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			for _, d := range containers[i].VolumeDevices {
				if d.Name == volume {
					return true
				}
			}
		}
	}
	return false
}
