package plan

import (
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// MarkPreviousLife returns have with the sandboxes and containers of the previous life of the
// pod, given by their ids, marked as PreviousLife. A container that ended for good is not marked: a
// job that is done stays done. Nor is an ephemeral container: it is not started again.
func MarkPreviousLife(want *v1.Pod, have pod.Observed, ids map[string]bool) pod.Observed {
	if len(ids) == 0 {
		return have
	}
	sandboxes, containers := make([]pod.Sandbox, len(have.Sandboxes)), make([]pod.Container, len(have.Containers))
	copy(sandboxes, have.Sandboxes)
	copy(containers, have.Containers)
	for i := range sandboxes {
		sandboxes[i].PreviousLife = ids[sandboxes[i].ID]
	}
	for i := range containers {
		containers[i].PreviousLife = ids[containers[i].ID] && runsInNewLife(want, &containers[i])
	}
	have.Sandboxes, have.Containers = sandboxes, containers
	return have
}

// runsInNewLife reports whether a new life of the pod starts a successor of c.
func runsInNewLife(want *v1.Pod, c *pod.Container) bool {
	spec := pod.ContainerSpec(want, c.Name)
	switch {
	case spec == nil || c.MayRun() || pod.IsEphemeral(want, c.Name):
		return false
	case c.State == pod.ContainerCreated || pod.IsInit(want, c.Name):
		return true
	default:
		return verdictOn(want, spec, c) != final
	}
}
