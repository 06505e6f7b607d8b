package localapi

import (
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/find"
	"berth/internal/lib/pod"
)

// pickLife returns the ID, in the runtime, of the container instance whose log is requested: the
// instance with the given ID, or the present or the last one, or with previous the one before it.
func pickLife(p *v1.Pod, container, id string, previous bool) (string, *problem) {
	status := find.Status(p, container)
	switch last := status.LastTerminationState.Terminated; {
	case id != "":
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
