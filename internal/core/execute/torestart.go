package execute

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// A container that the agent stops in order to run it again may end with exit code 0, before the next one can be started: its
// image is pulled first, or a back-off is due. By its restart policy it would not run again. So the ids of such containers are
// written down before the stop: the next sync has to know, and the next agent.

// toRestartFile holds the ids of the containers that the agent stopped in order to run them again.
const toRestartFile = "to-restart.json"

// withToRestart marks the containers that the agent stopped in order to run them again.
func (e *Executor) withToRestart(p *v1.Pod, have pod.Observed, m *memory) pod.Observed {
	if m.toRestart == nil {
		ids, err := e.readIDs(p.UID, toRestartFile)
		if err != nil {
			e.Log.Warn("can't read which containers are to run again: restart policies and exit codes decide", "pod", pod.Ref(p), "uid", p.UID, "err", err)
		}
		m.toRestart = ids
	}
	if len(m.toRestart) == 0 {
		return have
	}
	have.Containers = slices.Clone(have.Containers)
	for i := range have.Containers {
		c := &have.Containers[i]
		c.ToRestart = c.State == pod.ContainerExited && m.toRestart[c.ID]
	}
	return have
}

// recordToRestart remembers a container that is about to be stopped and runs again, and forgets those that are gone.
func (e *Executor) recordToRestart(t *task, id, name string) {
	if t.memory.toRestart[id] {
		return
	}
	ids := map[string]bool{id: true}
	for _, other := range t.have.Containers {
		if t.memory.toRestart[other.ID] {
			ids[other.ID] = true
		}
	}
	t.memory.toRestart = ids
	if err := e.writeIDs(t.pod.UID, toRestartFile, ids); err != nil {
		e.Log.Warn("can't write down that a container runs again: if the agent is restarted before that, the exit code decides",
			"pod", pod.Ref(t.pod), "container", name, "err", err)
	}
}
