package agent

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Every static pod that a source has is shown at the API server by a mirror pod,
// whatever becomes of it here: it may run, wait, have ended or have been rejected, and
// people want to see which. So it is the loop that asks for mirrors, and not the worker
// of a pod.
//
// A mirror stays for as long as anything is left of its pod. Who comes after a pod of
// the same name has its mirror after that one, as it runs after that one.

// reconcileMirrors sees to all mirrors. It goes through all pods, and so is for what concerns
// all of them; after anything else, tendMirror sees to one name.
func (a *Agent) reconcileMirrors() {
	leaving := map[string]bool{}
	for _, l := range a.workers.Lives() {
		if l.Removed {
			leaving[pod.FullName(l.Pod)] = true
		}
	}
	for _, u := range a.unreadable {
		leaving[pod.FullName(u.pod)] = true // it is nobody's, and stays
	}
	for _, p := range a.Desired.Pods() {
		if pod.IsStatic(p) && !leaving[pod.FullName(p)] {
			a.Upstream.Mirror(p)
		}
	}
	if !a.allReady() {
		return // who knows whose they are
	}
	for _, mirror := range a.Desired.OrphanedMirrors() {
		if !leaving[pod.FullName(mirror)] {
			a.Upstream.Unmirror(mirror)
		}
	}
}

// reconcileMirrorsOf sees to the mirrors of those of the pods that are static, or mirrors
// themselves.
func (a *Agent) reconcileMirrorsOf(pods []*v1.Pod) {
	for _, p := range pods {
		if pod.IsStatic(p) || pod.IsMirror(p) {
			a.reconcileMirror(pod.FullName(p))
		}
	}
}

// reconcileMirror sees to the mirror of the static pod of that full name, or to the mirrors
// that such a pod has left.
func (a *Agent) reconcileMirror(fullName string) {
	if a.leaving.has(fullName) || a.hasUnreadable(fullName) {
		return // until that pod is gone
	}
	if p, ok := a.Desired.ByFullName(fullName); ok && pod.IsStatic(p) {
		a.Upstream.Mirror(p)
		return
	}
	if !a.allReady() {
		return // who knows whose they are
	}
	for _, mirror := range a.Desired.MirrorsNamed(fullName) {
		a.Upstream.Unmirror(mirror)
	}
}

// departures are the pods that no source has any more, and whose workers are not done
// with them.
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

// remove returns the name of a pod that is gone, and false if it was not leaving.
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

// recordDeparture notes that the worker of a pod was told to take it away, if it has one.
func (a *Agent) recordDeparture(uid pod.UID) {
	if l, alive := a.workers.Life(uid); alive && l.Removed {
		a.leaving.add(uid, pod.FullName(l.Pod))
	}
}

// handleDeparture sees to the mirror of whoever comes after a pod that is gone.
func (a *Agent) handleDeparture(uid pod.UID) {
	if l, alive := a.workers.Life(uid); alive && l.Removed {
		return // it came again meanwhile, and leaves again
	}
	if name, ok := a.leaving.remove(uid); ok {
		a.reconcileMirror(name)
	}
}

// publishOnMirror gives a mirror the status of its static pod.
func (a *Agent) publishOnMirror(mirror *v1.Pod) {
	if static, ok := a.Desired.StaticOf(mirror); ok {
		a.Statuses.WithLock(static.UID, func(s v1.PodStatus) { a.Upstream.Publish(static, s) })
	}
}

// Remirror has all mirrors seen to: the cluster has another Node of ours than before, or
// its first.
func (a *Agent) Remirror(ctx context.Context) { send(ctx, a.remirror, struct{}{}) }
