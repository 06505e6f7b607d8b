package server

import (
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// annotationDefaultContainer names the container that people mean when they
// name none. The key is kubectl's.
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// containerNames are the containers of p, those that are likely meant first.
func containerNames(p *v1.Pod) []string {
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

// pickContainer returns the container of p that is meant by name.
func pickContainer(p *v1.Pod, name string) (string, *problem) {
	names := containerNames(p)
	if len(names) == 0 {
		return "", problemf(http.StatusNotFound, "pod %s has no containers", pod.Ref(p))
	}
	if name != "" {
		if !slices.Contains(names, name) {
			return "", problemf(http.StatusNotFound, "pod %s has no container %q: it has %s", pod.Ref(p), name, strings.Join(names, ", "))
		}
		return name, nil
	}
	if d := p.Annotations[annotationDefaultContainer]; slices.Contains(names, d) {
		return d, nil
	}
	return names[0], nil
}

// pickLife returns the runtime's id of that life of a container whose log is
// wanted: the present or the last one, or with previous the one before it.
func pickLife(p *v1.Pod, container string, previous bool) (string, *problem) {
	status := containerStatus(p, container)
	var id string
	switch last := status.LastTerminationState.Terminated; {
	case previous:
		if last == nil || last.ContainerID == "" {
			return "", problemf(http.StatusNotFound, "container %q of pod %s has no previous life: it has not been restarted, or the log is gone", container, pod.Ref(p))
		}
		id = last.ContainerID
	case status.State.Running != nil:
		id = status.ContainerID
	case status.State.Terminated != nil:
		id = status.State.Terminated.ContainerID
	case last != nil:
		id = last.ContainerID // it waits to be restarted
	default:
		return "", waitingProblem(p, container, status.State.Waiting)
	}
	if id == "" {
		return "", problemf(http.StatusNotFound, "container %q of pod %s has no log: the runtime no longer knows it", container, pod.Ref(p))
	}
	// In a status, the id comes after the name of the runtime.
	if _, bare, ok := strings.Cut(id, "://"); ok {
		id = bare
	}
	return id, nil
}

func waitingProblem(p *v1.Pod, container string, waiting *v1.ContainerStateWaiting) *problem {
	reason, message := p.Status.Reason, p.Status.Message
	if waiting != nil && waiting.Reason != "" {
		reason, message = waiting.Reason, waiting.Message
	}
	text := "container " + container + " of pod " + pod.Ref(p) + " is waiting to start"
	for _, s := range []string{reason, message} {
		if s != "" {
			text += ": " + s
		}
	}
	return problemf(http.StatusBadRequest, "%s", text)
}

func containerStatus(p *v1.Pod, name string) v1.ContainerStatus {
	for _, statuses := range [][]v1.ContainerStatus{
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses,
	} {
		for _, s := range statuses {
			if s.Name == name {
				return s
			}
		}
	}
	return v1.ContainerStatus{}
}
