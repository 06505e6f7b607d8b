package execute

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// A container that is stopped because a probe failed may end with exit code 0. That is no success: a pod with the restart policy
// OnFailure runs it again, as with the kubelet. The ids are written down before the stop, since the agent may end before
// the container does.

// givenUpFile holds the ids of the containers that were stopped because a probe failed.
const givenUpFile = "given-up.json"

// withGivenUp marks the containers that were stopped because a probe failed.
func (e *Executor) withGivenUp(p *v1.Pod, have pod.Observed, m *memory) pod.Observed {
	if m.givenUp == nil {
		ids, err := e.readIDs(p.UID, givenUpFile)
		if err != nil {
			e.Log.Warn("can't read which containers failed a probe: their exit codes decide", "pod", pod.Ref(p), "uid", p.UID, "err", err)
		}
		m.givenUp = ids
	}
	if len(m.givenUp) == 0 {
		return have
	}
	have.Containers = slices.Clone(have.Containers)
	for i := range have.Containers {
		c := &have.Containers[i]
		c.GivenUp = c.State == pod.ContainerExited && m.givenUp[c.ID]
	}
	return have
}

// recordGivenUp remembers a container that is about to be stopped because a probe failed, and forgets those that are gone.
func (e *Executor) recordGivenUp(t *task, c *pod.Container) {
	if c.Health.Dead == "" || t.memory.givenUp[c.ID] {
		return
	}
	ids := map[string]bool{c.ID: true}
	for _, other := range t.have.Containers {
		if t.memory.givenUp[other.ID] {
			ids[other.ID] = true
		}
	}
	t.memory.givenUp = ids
	if err := e.writeIDs(t.pod.UID, givenUpFile, ids); err != nil {
		e.Log.Warn("can't write down that a probe failed: if the agent is restarted before its container has ended, the exit code decides",
			"pod", pod.Ref(t.pod), "container", c.Name, "err", err)
	}
}
