package agent

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// handleUpdate takes in what changed in a source.
func (a *Agent) handleUpdate(group *run.Group, u pod.Update) {
	a.Metrics.Updated(u.Source, u.Op, len(u.Pods))
	log := a.Log.Info
	if u.Op == pod.Reconcile {
		log = a.Log.Debug // mostly the echo of our own statuses
	}
	for _, p := range u.Pods {
		log("pod update", "op", u.Op, "source", u.Source, "pod", pod.Ref(p), "uid", p.UID)
	}
	switch u.Op {
	case pod.Add:
		if !a.ready[u.Source] {
			a.startRestored(group, u.Source) // they were here before those that are new
		}
		a.forgetPastEphemeralContainers(u.Pods)
		a.handleAdditions(group, u.Pods)
	case pod.Restore:
		a.handleRestored(group, u)
	case pod.Change, pod.Delete:
		a.handleChanges(u.Pods)
	case pod.Reconcile:
		a.handleReconciles(u.Pods)
	case pod.Remove:
		a.handleRemovals(u.Pods)
	default:
		a.Log.Error("an update that the agent does not know; this is a bug", "op", u.Op, "source", u.Source)
	}
	a.updateRefusals(u)
	a.updateUnreadable(group)
	if u.Op == pod.Add && !a.ready[u.Source] {
		// The first ADD of a source, empty or not, says that all of it is known.
		a.ready[u.Source] = true
		if a.allReady() {
			a.closeSynced.Do(func() { close(a.synced) })
		}
		a.housekeep(group) // if it was the last one that was missing
	}
	a.reconcileMirrorsOf(u.Pods)
	a.updateView(u.Pods...)
}

// handleAdditions takes in new pods: those that had begun before the agent started, and then the
// oldest first. A pod is desired before it is admitted: whoever asks what should be here must be
// told of it.
func (a *Agent) handleAdditions(group *run.Group, pods []*v1.Pod) {
	for _, p := range a.begunFirst(pods) {
		p = a.withEphemeralContainers(p)
		a.Desired.Upsert(p)
		if pod.IsMirror(p) {
			a.publishOnMirror(p)
			continue
		}
		a.decide(group, p)
	}
}

func oldestFirst(pods []*v1.Pod) []*v1.Pod {
	return slices.SortedStableFunc(slices.Values(pods), func(x, y *v1.Pod) int { return pod.Created(x).Compare(pod.Created(y)) })
}

func (a *Agent) handleChanges(pods []*v1.Pod) {
	for _, p := range pods {
		p = a.withEphemeralContainers(p)
		a.Desired.Upsert(p)
		switch state := a.states.admission(p.UID); {
		case pod.IsMirror(p):
			a.publishOnMirror(p)
		case state == waitingForRuntime: // the first list decides on its newest version
		case p.DeletionTimestamp != nil: // a pod that never ran has to be released, too
			a.states.apply(p.UID, deletePod)
			a.workers.Desire(p)
		case !state.withoutWorker():
			a.workers.Desire(p)
		}
	}
}

// handleReconciles deals with pods whose status somebody else overwrote: what
// runs here is what counts, and is said again.
func (a *Agent) handleReconciles(pods []*v1.Pod) {
	for _, p := range pods {
		if !pod.IsMirror(p) {
			p = a.withEphemeralContainers(p)
			a.Desired.Upsert(p)
			a.Statuses.WithLock(p.UID, func(s v1.PodStatus) { a.Upstream.Publish(p, s) })
		}
	}
	a.handleChanges(pods)
}

func (a *Agent) handleRemovals(pods []*v1.Pod) {
	for _, p := range pods {
		a.Desired.Remove(p.UID)
		a.forgetEphemeralContainers(p.UID)
		a.memo.Forget(p.UID)
		delete(a.foundAtStart, p.UID) // if it comes again, that is a new life
		if a.states.admission(p.UID).withoutWorker() {
			a.Statuses.Forget(p.UID)
		}
		a.states.remove(p.UID)
		if !pod.IsMirror(p) {
			a.workers.Remove(p)
			a.recordDeparture(p.UID)
		}
		a.Upstream.Forget(p.UID)
	}
	a.occupancy.update(a.needsRoom) // keeps nothing of them
}

// updateRefusals keeps what a source could not take in, and says it once.
func (a *Agent) updateRefusals(u pod.Update) {
	before := a.refused[u.Source]
	for _, r := range u.Refused {
		if !slices.Contains(before, r) {
			a.Log.Warn("manifest refused", "source", r.Source, "origin", r.Origin, "line", r.Line, "pod", r.Pod, "object", r.Object,
				"why", r.Message, "last good version kept", r.Kept)
			a.recordRefusedEvent(r)
		}
	}
	for _, r := range before {
		if !slices.ContainsFunc(u.Refused, func(now pod.Refusal) bool {
			return now.Origin == r.Origin && now.Pod == r.Pod && now.Object == r.Object
		}) {
			a.Log.Info("no longer refused", "source", r.Source, "origin", r.Origin, "pod", r.Pod, "object", r.Object)
		}
	}
	a.refused[u.Source] = u.Refused
	a.updateViewRefusals()
}

// handleChanged passes on that a pod is worth a look. One that nobody works on
// may be an orphan.
func (a *Agent) handleChanged(group *run.Group, uid pod.UID) {
	if _, wanted := a.Desired.Get(uid); wanted {
		a.workers.Enqueue(uid)
		return
	}
	if _, known := a.workers.Life(uid); known {
		a.workers.Enqueue(uid)
		return
	}
	a.housekeepSoon(group)
}

// handleProbe passes on that a probe has something new to say.
func (a *Agent) handleProbe(r pod.ProbeResult) { a.workers.Enqueue(r.UID) }

// handleGone deals with a pod of which nothing is left. If its source has it again, and it
// was not taken in, that has to be said once more: the status of the life that is gone
// went with it. A rejection may have been for what that life had.
func (a *Agent) handleGone(group *run.Group, uid pod.UID) {
	delete(a.foundAtStart, uid)
	delete(a.unreadable, uid)
	if p, wanted := a.Desired.Get(uid); wanted {
		switch state := a.states.admission(uid); {
		case state == waitingForResume && a.hold != nil:
			a.publishHeldBack(p)
		case state == rejected && pod.IsStatic(p):
			a.decide(group, p)
		}
	}
	a.handleDeparture(uid)
	a.updateViewUnreadable()
	a.view.update(uid)
}

func (a *Agent) allReady() bool {
	for _, source := range a.Sources {
		if !a.ready[source] {
			return false
		}
	}
	return true
}
