package agent

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// A version of berth may be unable to read the manifest of a pod that another version of berth
// runs. The spec of such a pod is not known, so it has no worker: its containers are left alone
// until its manifest is removed or can be read.

const (
	reasonManifestUnreadable = "ManifestUnreadable" // in the status of an unreadable pod
	reasonManifestRefused    = "ManifestRefused"    // the event of a pod whose last good version goes on
)

// unreadablePod is a pod whose manifest can't be read.
type unreadablePod struct {
	pod      *v1.Pod // as far as the runtime knows its spec
	observed pod.Observed
	message  string
	// released says that its manifest was removed or replaced: it is ended as an orphan.
	released bool
}

// updateUnreadable adds and releases unreadable pods by the present refusals.
func (a *Agent) updateUnreadable(group *run.Group) {
	now := map[pod.UID]pod.Refusal{}
	for _, refused := range a.refused {
		for _, r := range refused {
			if _, wanted := a.Desired.Get(r.UID); r.UID != "" && !wanted {
				now[r.UID] = r
			}
		}
	}
	for uid, u := range a.unreadable {
		if _, still := now[uid]; still || u.released {
			continue
		}
		u.released = true
		a.Statuses.Forget(uid)
		a.housekeep(group)
	}
	for uid, r := range now {
		if a.unreadable[uid] != nil {
			continue
		}
		u := &unreadablePod{pod: &v1.Pod{}, message: r.Message}
		u.pod.UID = uid
		u.pod.Namespace, u.pod.Name, _ = strings.Cut(r.Pod, "/")
		a.unreadable[uid] = u
		have := pod.Observed{UID: uid, Name: u.pod.Name, Namespace: u.pod.Namespace}
		if o := a.heldAtStart[uid]; o != nil {
			have = *o
		}
		a.publishUnreadable(u, have)
		a.Events.Record(u.pod, v1.EventTypeWarning, reasonManifestUnreadable, r.Message)
	}
	a.updateViewUnreadable()
}

// publishUnreadable sets the status of an unreadable pod from its containers in the runtime.
func (a *Agent) publishUnreadable(u *unreadablePod, have pod.Observed) {
	shown := *u.pod // readers of the view share the previous version
	shown.Spec.Containers = nil
	seen := map[string]bool{}
	for _, c := range have.Containers {
		if !seen[c.Name] {
			seen[c.Name] = true
			shown.Spec.Containers = append(shown.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	u.pod, u.observed = &shown, have
	s := status.Derive(status.Input{Pod: &shown, Observed: have, Now: time.Now()})
	if len(have.Containers) == 0 {
		s.Phase = v1.PodPending
	}
	s.Reason, s.Message = reasonManifestUnreadable, u.message
	a.Statuses.Set(shown.UID, s)
}

// updateViewUnreadable replaces the unreadable pods in the view.
func (a *Agent) updateViewUnreadable() {
	now := map[pod.UID]*v1.Pod{}
	for uid, u := range a.unreadable {
		if !u.released {
			now[uid] = u.pod
		}
	}
	a.view.setUnreadable(now)
}

// replaceUnreadable ends the unreadable pod that has the name of a pod that is about to start. If
// both are the same pod, it is no longer unreadable.
func (a *Agent) replaceUnreadable(p *v1.Pod) {
	delete(a.unreadable, p.UID)
	for _, u := range a.unreadable {
		if pod.FullName(u.pod) == pod.FullName(p) {
			u.released = true
			a.workers.Orphan(u.observed) // has the grace of its containers
			a.recordDeparture(u.pod.UID)
			a.view.update(u.pod.UID)
		}
	}
}

// keepUnreadable reports whether a pod that is not desired is unreadable and has to be left alone. It
// updates the status of such a pod.
func (a *Agent) keepUnreadable(o *pod.Observed) bool {
	u := a.unreadable[o.UID]
	if u == nil || u.released {
		return false
	}
	a.publishUnreadable(u, *o)
	return true
}

// hasUnreadable reports whether an unreadable pod has that full name, also one that is being ended.
func (a *Agent) hasUnreadable(fullName string) bool {
	for _, u := range a.unreadable {
		if pod.FullName(u.pod) == fullName {
			return true
		}
	}
	return false
}

// forgetReleased forgets the released pods of which nothing is left: neither in the runtime, nor
// on disk, nor a worker.
func (a *Agent) forgetReleased(left map[pod.UID]*pod.Observed) {
	for uid, u := range a.unreadable {
		if _, alive := a.workers.Life(uid); u.released && !alive && left[uid] == nil {
			delete(a.unreadable, uid)
			a.reconcileMirror(pod.FullName(u.pod))
		}
	}
}

// recordRefusedEvent records an event of a pod whose newer version was refused.
func (a *Agent) recordRefusedEvent(r pod.Refusal) {
	namespace, name, ok := strings.Cut(r.Pod, "/")
	if !ok || !r.Kept || r.UID != "" {
		return
	}
	if p, ok := a.Desired.ByFullName(name + "_" + namespace); ok && pod.IsStatic(p) {
		a.Events.Record(p, v1.EventTypeWarning, reasonManifestRefused, r.Message)
	}
}
