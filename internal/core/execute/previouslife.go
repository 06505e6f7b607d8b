package execute

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
)

// A static pod that was stopped here, say for a drain, lives again under the same UID. The
// containers of the life before are still in the runtime, with their restart counts and
// waits, and nothing on them tells that it was not they who ended. So their ids are
// written down before they are stopped, in a file in the pod's directory: an agent that is
// started meanwhile has to know, too.

// previousLifeFile is the name of that file.
const previousLifeFile = "past-life.json"

// forgetLife ends what is remembered of a pod by its UID, here and by everybody whom this
// package tells of pods. What is kept on disk goes with the pod's directory, and what is
// mounted there with the volumes.
func (e *Executor) forgetLife(uid pod.UID) {
	e.Images.Release(uid)
	e.Probes.Forget(uid)
	e.Objects.Unregister(uid)
	e.memories.forget(uid)
	e.Reports.Statuses.Forget(uid)
	e.Reports.PodGone(uid)
	e.Reports.Telemetry.Gone(uid)
}

// beginLife forgets the life before of a pod that was stopped and is to run again: only a
// new life is synced after a stop. A pod that has nothing left to do keeps its last words.
// It returns the observation with all of it marked that is of a life before.
func (e *Executor) beginLife(p *v1.Pod, have pod.Observed) pod.Observed {
	m := e.memories.get(p.UID)
	if m.previousLife == nil {
		m.previousLife = e.readPreviousLife(p)
	}
	wasStopped := m.termination.phase >= stopped
	if !wasStopped && len(m.previousLife) == 0 || plan.Next(p, have, e.Backoff, have.At).Finished {
		return have
	}
	if wasStopped {
		ids := m.previousLife
		e.forgetLife(p.UID)
		m = e.memories.get(p.UID)
		m.previousLife = ids
	}
	if anyRuns(have, m.previousLife) { // the agent that was to stop it did not: its life goes on
		m.previousLife = map[string]bool{}
		if err := e.writeIDs(p.UID, previousLifeFile, nil); err != nil {
			e.Log.Debug("can't remove the record of a stop that was not carried out", "pod", pod.Ref(p), "err", err)
		}
	}
	return plan.MarkPreviousLife(p, have, m.previousLife)
}

// anyRuns tells whether a container of those runs.
func anyRuns(have pod.Observed, ids map[string]bool) bool {
	for _, c := range have.Containers {
		if ids[c.ID] && (c.State == pod.ContainerRunning || c.State == pod.ContainerUnknown) {
			return true
		}
	}
	return false
}

// recordPreviousLife writes down that this life of a static pod is about to be ended by the agent,
// for a cause that is not the pod's own.
func (e *Executor) recordPreviousLife(t *task, cause pod.Cause) {
	p, have, m := t.pod, t.have, t.memory
	if !pod.IsStatic(p) || cause.Reason == "" {
		return
	}
	ids := map[string]bool{}
	for _, s := range have.Sandboxes {
		ids[s.ID] = true
	}
	for _, c := range have.Containers {
		ids[c.ID] = true
	}
	if maps.Equal(ids, m.previousLife) {
		return
	}
	m.previousLife = ids
	if len(ids) == 0 {
		return
	}
	if err := e.writeIDs(p.UID, previousLifeFile, ids); err != nil {
		e.Log.Warn("can't write down that the agent stops a pod: if the agent is restarted before the pod runs again, its containers count as crashed",
			"pod", pod.Ref(p), "uid", p.UID, "err", err)
	}
}

// readPreviousLife returns the ids of the life before. If they can't be read, there are none: the
// pod runs, and may have to wait for that.
func (e *Executor) readPreviousLife(p *v1.Pod) map[string]bool {
	if !pod.IsStatic(p) {
		return map[string]bool{}
	}
	ids, err := e.readIDs(p.UID, previousLifeFile)
	if err != nil {
		e.Log.Warn("can't read which containers the agent stopped: they count as crashed", "pod", pod.Ref(p), "uid", p.UID, "err", err)
	}
	return ids
}
