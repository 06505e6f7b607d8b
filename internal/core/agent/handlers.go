package agent

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// handleUpdate applies one update of a source to the desired set and to the workers.
func (a *Agent) handleUpdate(group *run.Group, u pod.Update) {
	a.Metrics.Updated(u.Source, u.Op, len(u.Pods))
	log := a.Log.Info
	if u.Op == pod.Reconcile {
		log = a.Log.Debug // mostly our own status, sent back by the API server
	}
	for _, p := range u.Pods {
		log("pod update", "op", u.Op, "source", u.Source, "pod", pod.Ref(p), "uid", p.UID)
	}
	switch u.Op {
	case pod.Add:
		if !a.ready[u.Source] {
			a.startRestored(group, u.Source) // they came before the new ones
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
		// After the first ADD of a source, empty or not, all of its pods are known.
		a.ready[u.Source] = true
		if a.allReady() {
			a.closeSynced.Do(func() { close(a.synced) })
		}
		a.housekeep(group) // it may have been the last source that was missing
	}
	a.reconcileMirrorsOf(u.Pods)
	a.updateView(u.Pods...)
}

// handleAdditions decides on new pods: first on those that had begun before the agent started,
// then on the oldest. A pod is desired before it is admitted, so that readers see also a pod that
// waits or is rejected.
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

// handleReconciles publishes the status of pods once more of which only the status changed at the
// API server: the status is the agent's to write.
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
		delete(a.heldAtStart, p.UID) // the next pod of this UID has to be admitted
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
	a.occupancy.update(a.needsRoom) // it must not keep what is removed
}

// updateRefusals replaces the refusals of a source, and logs those that are new or gone.
func (a *Agent) updateRefusals(u pod.Update) {
	before := a.refused[u.Source]
	for _, r := range u.Refused {
		if !slices.Contains(before, r) {
			a.Log.Warn("manifest refused", "source", r.Source, "origin", r.Origin, "line", r.Line, "pod", r.Pod, "object", r.Object,
				"reason", r.Message, "last good version kept", r.Kept)
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

// handleChanged enqueues a pod at its worker. A pod that is not desired and has no worker may be
// an orphan.
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

// handleProbe enqueues a pod whose probe has a new result.
func (a *Agent) handleProbe(r pod.ProbeResult) { a.workers.Enqueue(r.UID) }

// handleGone forgets a pod of which nothing is left. Its source may have it again by now: if that
// pod waits, its status is published once more, since the status of the life before was removed
// with that life. If it was rejected, the life before may have been in its way.
func (a *Agent) handleGone(group *run.Group, uid pod.UID) {
	delete(a.heldAtStart, uid)
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
