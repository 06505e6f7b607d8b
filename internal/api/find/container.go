package find

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// annotationDefaultContainer is kubectl's annotation with the name of a pod's default container.
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// Containers returns the names of the containers of p: containers, init containers, ephemeral ones.
func Containers(p *v1.Pod) []string {
	var names []string
	for _, c := range p.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range p.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range p.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	return names
}

// Container returns the name of the container with that name, or of the default container of p if
// name is empty.
func Container(p *v1.Pod, name string) (string, *Error) {
	names := Containers(p)
	if len(names) == 0 {
		return "", missing("pod %s has no containers", pod.Ref(p))
	}
	if name != "" {
		if !slices.Contains(names, name) {
			return "", missing("pod %s has no container %q: it has %s", pod.Ref(p), name, strings.Join(names, ", "))
		}
		return name, nil
	}
	if d := p.Annotations[annotationDefaultContainer]; slices.Contains(names, d) {
		return d, nil
	}
	return names[0], nil
}

// Status returns the status of a container of p, which is empty if p has none.
func Status(p *v1.Pod, container string) v1.ContainerStatus {
	for _, statuses := range [][]v1.ContainerStatus{
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses,
	} {
		for _, s := range statuses {
			if s.Name == container {
				return s
			}
		}
	}
	return v1.ContainerStatus{}
}
