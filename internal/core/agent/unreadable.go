package agent

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// A version of berth may be unable to read a pod that another one took in. Nobody knows then
// what exactly it asks for, so there is no worker for it: what runs of it goes on untouched,
// until its manifest goes or can be read.

const (
	reasonManifestUnreadable = "ManifestUnreadable" // of such a pod
	reasonManifestRefused    = "ManifestRefused"    // the event of a pod whose last good version goes on
)

// unreadablePod is a pod that is left as it is.
type unreadablePod struct {
	pod      *v1.Pod // what the runtime tells of it
	observed pod.Observed
	message  string
	// released says that its manifest is no longer there, or is another one: it ends.
	released bool
}

// updateUnreadable brings the pods that are left as they are in line with the refusals.
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
		if o := a.foundAtStart[uid]; o != nil {
			have = *o
		}
		a.publishUnreadable(u, have)
		a.Events.Record(u.pod, v1.EventTypeWarning, reasonManifestUnreadable, r.Message)
	}
	a.updateViewUnreadable()
}

// publishUnreadable sets the status of a pod that is left as it is, by what the runtime has of it.
func (a *Agent) publishUnreadable(u *unreadablePod, have pod.Observed) {
	shown := *u.pod // readers may have the one before
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

// updateViewUnreadable lets readers see the pods that are left as they are.
func (a *Agent) updateViewUnreadable() {
	now := map[pod.UID]*v1.Pod{}
	for uid, u := range a.unreadable {
		if !u.released {
			now[uid] = u.pod
		}
	}
	a.view.setUnreadable(now)
}

// replaceUnreadable makes way for a pod that is about to be started: it may be one that was left
// as it is, or the next one of its name, which has to wait for its end.
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

// keepUnreadable tells whether a pod that no source wants is to be left as it is, and shows how it
// is doing.
func (a *Agent) keepUnreadable(o *pod.Observed) bool {
	u := a.unreadable[o.UID]
	if u == nil || u.released {
		return false
	}
	a.publishUnreadable(u, *o)
	return true
}

// hasUnreadable tells whether a pod of that full name is left as it is, or is not gone yet.
func (a *Agent) hasUnreadable(fullName string) bool {
	for _, u := range a.unreadable {
		if pod.FullName(u.pod) == fullName {
			return true
		}
	}
	return false
}

// forgetReleased forgets the released pods of which there is nothing: neither in the runtime, nor
// on disk, nor a worker.
func (a *Agent) forgetReleased(left map[pod.UID]*pod.Observed) {
	for uid, u := range a.unreadable {
		if _, alive := a.workers.Life(uid); u.released && !alive && left[uid] == nil {
			delete(a.unreadable, uid)
			a.reconcileMirror(pod.FullName(u.pod))
		}
	}
}

// recordRefusedEvent tells a pod that a newer version of it was refused.
func (a *Agent) recordRefusedEvent(r pod.Refusal) {
	namespace, name, ok := strings.Cut(r.Pod, "/")
	if !ok || !r.Kept || r.UID != "" {
		return
	}
	if p, ok := a.Desired.ByFullName(name + "_" + namespace); ok && pod.IsStatic(p) {
		a.Events.Record(p, v1.EventTypeWarning, reasonManifestRefused, r.Message)
	}
}
