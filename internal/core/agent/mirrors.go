package agent

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Every static pod of the desired set has a mirror pod at the API server, also if it waits, has
// ended or was rejected: people want to see which. So the loop asks for mirrors, and not the
// worker of a pod.
//
// A mirror stays for as long as anything is left of its pod. The next pod of the same name is
// mirrored after that, as it runs after that, and has a mirror of its own: so does a pod that was removed
// and added again, though its hash is the same.

// reconcileMirrors asks for the mirrors of all static pods, and deletes the mirrors of others. It
// goes through all pods; after a change of one pod, reconcileMirror is enough.
func (a *Agent) reconcileMirrors() {
	leaving := map[string]bool{}
	for _, l := range a.workers.Lives() {
		if l.Removed {
			leaving[pod.FullName(l.Pod)] = true
		}
	}
	for _, u := range a.unreadable {
		leaving[pod.FullName(u.pod)] = true // its mirror stays
	}
	for _, p := range a.Desired.Pods() {
		if pod.IsStatic(p) && !leaving[pod.FullName(p)] {
			a.Upstream.Mirror(p)
		}
	}
	if !a.allReady() {
		return // the static pod may be of a source that was not read yet
	}
	for _, mirror := range a.Desired.OrphanedMirrors() {
		if !leaving[pod.FullName(mirror)] {
			a.Upstream.Unmirror(mirror)
		}
	}
}

// reconcileMirrorsOf calls reconcileMirror for each static pod and mirror pod.
func (a *Agent) reconcileMirrorsOf(pods []*v1.Pod) {
	for _, p := range pods {
		if pod.IsStatic(p) || pod.IsMirror(p) {
			a.reconcileMirror(pod.FullName(p))
		}
	}
}

// reconcileMirror asks for the mirror of the static pod of that full name. If there is no such pod,
// it deletes the mirrors of that name.
func (a *Agent) reconcileMirror(fullName string) {
	if a.leaving.has(fullName) || a.hasUnreadable(fullName) {
		return // until that pod is gone
	}
	if p, ok := a.Desired.ByFullName(fullName); ok && pod.IsStatic(p) {
		a.Upstream.Mirror(p)
		return
	}
	if !a.allReady() {
		return // the static pod may be of a source that was not read yet
	}
	for _, mirror := range a.Desired.MirrorsNamed(fullName) {
		a.Upstream.Unmirror(mirror)
	}
}

// departures are the pods that no source has any more, and that still have a worker.
type departures struct {
	names  map[pod.UID]string // full names
	counts map[string]int     // of pods, by full name
}

func newDepartures() departures {
	return departures{names: map[pod.UID]string{}, counts: map[string]int{}}
}

func (d departures) has(fullName string) bool { return d.counts[fullName] > 0 }

func (d departures) add(uid pod.UID, fullName string) {
	if _, ok := d.names[uid]; !ok {
		d.names[uid] = fullName
		d.counts[fullName]++
	}
}

// remove returns the full name of a pod that is gone, and false if it was not a departure.
func (d departures) remove(uid pod.UID) (fullName string, ok bool) {
	if fullName, ok = d.names[uid]; !ok {
		return "", false
	}
	delete(d.names, uid)
	if d.counts[fullName]--; d.counts[fullName] == 0 {
		delete(d.counts, fullName)
	}
	return fullName, true
}

// recordDeparture adds a pod to the departures, if its worker removes it.
func (a *Agent) recordDeparture(uid pod.UID) {
	if l, alive := a.workers.Life(uid); alive && l.Removed {
		a.leaving.add(uid, pod.FullName(l.Pod))
	}
}

// handleDeparture reconciles the mirror of a name whose pod is gone.
func (a *Agent) handleDeparture(uid pod.UID) {
	if l, alive := a.workers.Life(uid); alive && l.Removed {
		return // it was added and removed again meanwhile
	}
	name, ok := a.leaving.remove(uid)
	if !ok {
		return
	}
	if _, again := a.Desired.Get(uid); again {
		// Its removal asks for the next one.
		for _, mirror := range a.Desired.MirrorsNamed(name) {
			a.Upstream.Unmirror(mirror)
			return
		}
	}
	a.reconcileMirror(name)
}

// publishOnMirror publishes the status of a static pod once more, for a new version of its mirror.
func (a *Agent) publishOnMirror(mirror *v1.Pod) {
	if static, ok := a.Desired.StaticOf(mirror); ok {
		a.Statuses.WithLock(static.UID, func(s v1.PodStatus) { a.Upstream.Publish(static, s) })
	}
}

// Remirror reconciles all mirrors after the Node was created or replaced: mirrors have it as their
// owner.
func (a *Agent) Remirror(ctx context.Context) { send(ctx, a.remirror, struct{}{}) }
