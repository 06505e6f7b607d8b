package pod

import v1 "k8s.io/api/core/v1"

// Images returns the names of all images of a pod, as its spec has them and as the
// runtime does.
func Images(p *v1.Pod) map[string]bool {
	names := map[string]bool{}
	add := func(name string) {
		if name != "" {
			names[name] = true
		}
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			add(list[i].Image)
		}
	}
	for i := range p.Spec.EphemeralContainers {
		add(p.Spec.EphemeralContainers[i].Image)
	}
	for i := range p.Spec.Volumes {
		if from := p.Spec.Volumes[i].Image; from != nil {
			add(from.Reference)
		}
	}
	for _, list := range [][]v1.ContainerStatus{
		p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses,
	} {
		for i := range list {
			add(list[i].Image)
			add(list[i].ImageID)
		}
	}
	return names
}
