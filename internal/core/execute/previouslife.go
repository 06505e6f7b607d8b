package execute

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
)

// A static pod that the agent stopped, say for a drain, starts a new life under the same UID. The
// containers of the previous life are still in the runtime, with their restart counts and
// back-offs, and look as if they had ended by themselves. So their ids are written to a file in the
// pod's directory before they are stopped: a restarted agent has to know, too.

// previousLifeFile holds the ids of the sandboxes and containers of the previous life.
const previousLifeFile = "past-life.json"

// forgetLife drops what is remembered of a pod by its UID, here and in the packages that this one
// calls. Files are removed with the pod's directory, and mounts with its volumes.
func (e *Executor) forgetLife(uid pod.UID) {
	e.Images.Release(uid)
	e.Probes.Forget(uid)
	e.Objects.Unregister(uid)
	e.memories.forget(uid)
	e.Reports.Statuses.Forget(uid)
	e.Reports.PodGone(uid)
	e.Reports.Telemetry.Gone(uid)
}

// beginLife forgets the previous life of a pod that was stopped and is synced again: that is a new
// life. A pod whose containers ended for good has none, and keeps its status. It returns
// the observation with the sandboxes and containers of the previous life marked.
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
	if anyRuns(have, m.previousLife) { // the agent ended before it stopped the pod: the life goes on
		m.previousLife = map[string]bool{}
		if err := e.writeIDs(p.UID, previousLifeFile, nil); err != nil {
			e.Log.Debug("can't remove the record of a stop that was not carried out", "pod", pod.Ref(p), "err", err)
		}
	}
	return plan.MarkPreviousLife(p, have, m.previousLife)
}

// anyRuns reports whether one of the containers with these ids runs.
func anyRuns(have pod.Observed, ids map[string]bool) bool {
	for _, c := range have.Containers {
		if ids[c.ID] && c.MayRun() {
			return true
		}
	}
	return false
}

// recordPreviousLife writes down the ids of a static pod that the agent is about to stop for a cause
// outside of the pod, such as a drain: this life becomes the previous one if another follows.
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

// readPreviousLife returns the ids of the previous life. If the file can't be read, there are none:
// the pod runs, possibly after a back-off.
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
