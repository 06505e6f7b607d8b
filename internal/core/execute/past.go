package execute

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/atomicfile"
	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
)

// A static pod that was stopped here, say for a drain, lives again under the same UID. The
// containers of the life before are still in the runtime, with their restart counts and
// waits, and nothing on them tells that it was not they who ended. So their ids are
// written down before they are stopped, in a file in the pod's directory: an agent that is
// started meanwhile has to know, too.

// pastFile is the name of that file. The directory goes with the pod, and the file with it.
const pastFile = "past-life.json"

// maxPast is more than the ids of any pod's sandboxes and containers need.
const maxPast = 1 << 20

// past is the form of the file.
type past struct {
	IDs []string `json:"ids"` // of sandboxes and containers
}

func (e *Executor) pastPath(uid pod.UID) string { return filepath.Join(e.podDir(uid), pastFile) }

// forgetLife ends what is remembered of a pod by its UID, here and by everybody whom this
// package tells of pods. What is kept on disk goes with the pod's directory, and what is
// mounted there with the volumes.
func (e *Executor) forgetLife(uid pod.UID) {
	e.Images.Release(uid)
	e.Probes.Forget(uid)
	e.Objects.Unregister(uid)
	e.memories.forget(uid)
	e.Statuses.Forget(uid)
	e.PodGone(uid)
	e.Telemetry.Gone(uid)
}

// beginLife forgets the life before of a pod that was stopped and is to run again: only a
// new life is synced after a stop. A pod that has nothing left to do keeps its last words.
// It returns the observation with all of it marked that is of a life before.
func (e *Executor) beginLife(p *v1.Pod, have pod.Observed) pod.Observed {
	m := e.memories.of(p.UID)
	if m.past == nil {
		m.past = e.readPast(p)
	}
	if !m.stopped && len(m.past) == 0 || plan.Next(p, have, e.Backoff, have.At).Finished {
		return have
	}
	if m.stopped {
		ids := m.past
		e.forgetLife(p.UID)
		m = e.memories.of(p.UID)
		m.past = ids
	}
	if alive(have, m.past) { // the agent that was to stop it did not: its life goes on
		m.past = map[string]bool{}
		if err := os.Remove(e.pastPath(p.UID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.Log.Debug("can't remove the record of a stop that was not carried out", "pod", pod.Ref(p), "err", err)
		}
	}
	return plan.MarkPast(p, have, m.past)
}

// alive tells whether a container of those runs.
func alive(have pod.Observed, ids map[string]bool) bool {
	for _, c := range have.Containers {
		if ids[c.ID] && (c.State == pod.ContainerRunning || c.State == pod.ContainerUnknown) {
			return true
		}
	}
	return false
}

// notePast writes down that this life of a static pod is about to be ended by the agent,
// for a cause that is not the pod's own.
func (e *Executor) notePast(p *v1.Pod, have pod.Observed, m *memory, cause pod.Cause) {
	if !pod.IsStatic(p) || cause.Reason == "" {
		return
	}
	ids := past{}
	for _, s := range have.Sandboxes {
		ids.IDs = append(ids.IDs, s.ID)
	}
	for _, c := range have.Containers {
		ids.IDs = append(ids.IDs, c.ID)
	}
	if maps.Equal(ids.set(), m.past) {
		return
	}
	m.past = ids.set()
	if err := e.writePast(p.UID, ids); err != nil {
		e.Log.Warn("can't write down that the agent stops a pod: if the agent is restarted before the pod runs again, its containers count as crashed",
			"pod", pod.Ref(p), "uid", p.UID, "err", err)
	}
}

func (p past) set() map[string]bool {
	out := map[string]bool{}
	for _, id := range p.IDs {
		out[id] = true
	}
	return out
}

func (e *Executor) writePast(uid pod.UID, ids past) error {
	if len(ids.IDs) == 0 {
		return nil
	}
	data, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return atomicfile.Replace(e.pastPath(uid), data, 0o600)
}

// readPast returns the ids of the life before. If they can't be read, there are none: the
// pod runs, and may have to wait for that.
func (e *Executor) readPast(p *v1.Pod) map[string]bool {
	if !pod.IsStatic(p) {
		return map[string]bool{}
	}
	path := e.pastPath(p.UID)
	data, err := podfile.Read(e.PodsDir, filepath.Join(string(p.UID), pastFile), maxPast)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]bool{}
	}
	var ids past
	if err == nil {
		if err = json.Unmarshal(data, &ids); err != nil {
			err = fmt.Errorf("read %s: %w", path, err)
		}
	}
	if err != nil {
		e.Log.Warn("can't read which containers the agent stopped: they count as crashed", "pod", pod.Ref(p), "uid", p.UID, "err", err)
	}
	return ids.set()
}
