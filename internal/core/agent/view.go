package agent

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/core/status"
	"berth/internal/core/worker"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
)

// view holds the pods of this node, with spec and status, for readers. A pod is assembled once
// after each change, by the first reader that asks, and then shared by all readers: the cost of a
// change does not depend on the number of pods.
//
// Invariants:
//   - A pod that a reader has is never written to. A changed pod is another value.
//   - Each change has a version. byVersion holds the pods in that order, so that the pods that
//     changed after a version are at its end.
//   - A pod that left the view is in gone, with the version of that change. Only the newest are
//     kept; a reader whose version is older than all of them gets all pods.
type view struct {
	desired  *desired.Set
	statuses *status.Store

	mu        sync.Mutex
	workers   Workers // nil until Run
	listed    bool    // the runtime was listed for the first time
	version   uint64
	pods      map[pod.UID]*list.Element // of byVersion
	byVersion *list.List                // of *shownPod
	gone      []gonePod
	forgotten uint64 // the version of the last pod that was dropped from gone

	unreadable map[pod.UID]*v1.Pod // unreadable pods, by Agent.unreadable; never written to

	refused   []pod.Refusal
	refusedAt uint64 // the version of refused

	watchers map[chan struct{}]struct{}
}

// shownPod is the entry of a pod.
type shownPod struct {
	uid     pod.UID
	version uint64
	pod     *v1.Pod // as it was assembled last; nil: never
	stale   bool    // the pod may have changed since
	leaving time.Time
}

// shownAt returns the pod at an element of byVersion, which holds nothing else.
func shownAt(e *list.Element) *shownPod {
	p, _ := e.Value.(*shownPod)
	return p
}

type gonePod struct {
	uid     pod.UID
	version uint64
}

// maxGone is how many pods the view remembers in gone: more than are removed while a reader reads.
const maxGone = 1024

func newView(d *desired.Set, s *status.Store) *view {
	v := &view{desired: d, statuses: s, version: 1, pods: map[pod.UID]*list.Element{}, byVersion: list.New(), watchers: map[chan struct{}]struct{}{}}
	s.Subscribe(v.markStale)
	return v
}

// setWorkers is called when the loop begins.
func (v *view) setWorkers(w Workers) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.workers = w
	v.notifyWatchers()
}

// markStale has a pod assembled anew, after a change of its status.
func (v *view) markStale(uid pod.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.touch(uid)
	v.notifyWatchers()
}

// update assembles a pod at once, or removes it, so that pods that are gone do not pile up while
// there is no reader.
func (v *view) update(uid pod.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresh(v.touch(uid))
	v.notifyWatchers()
}

// setListed is called after the first list of the runtime: from now on a pod without a status has
// not been started, and is Pending.
func (v *view) setListed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listed = true
	for uid := range v.pods {
		v.touch(uid)
	}
	v.notifyWatchers()
}

// setUnreadable replaces the unreadable pods.
func (v *view) setUnreadable(now map[pod.UID]*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.unreadable
	v.unreadable = now
	for uid := range before {
		if now[uid] == nil {
			v.refresh(v.touch(uid))
			v.notifyWatchers()
		}
	}
	for uid, p := range now {
		if before[uid] != p {
			v.refresh(v.touch(uid))
			v.notifyWatchers()
		}
	}
}

func (v *view) setRefused(all []pod.Refusal) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.Equal(all, v.refused) {
		return
	}
	v.version++
	v.refused, v.refusedAt = all, v.version
	v.notifyWatchers()
}

// touch moves a pod to the end of byVersion: it changed last. The caller holds the lock.
func (v *view) touch(uid pod.UID) *list.Element {
	e := v.pods[uid]
	if e == nil {
		e = v.byVersion.PushBack(&shownPod{uid: uid})
		v.pods[uid] = e
	}
	v.version++
	p := shownAt(e)
	p.version, p.stale = v.version, true
	v.byVersion.MoveToBack(e)
	return e
}

// refresh assembles a stale pod, and returns nil if there is no such pod any more. The caller
// holds the lock.
func (v *view) refresh(e *list.Element) *v1.Pod {
	p := shownAt(e)
	if !p.stale {
		return p.pod
	}
	now := v.build(p)
	if now == nil {
		v.byVersion.Remove(e)
		delete(v.pods, p.uid)
		if p.pod != nil { // else no reader has it
			v.version++
			v.gone = append(v.gone, gonePod{p.uid, v.version})
			if len(v.gone) > maxGone {
				v.forgotten = v.gone[0].version
				v.gone = slices.Delete(v.gone, 0, 1)
			}
		}
		return nil
	}
	if p.pod == nil || !equality.Semantic.DeepEqual(p.pod, now) {
		p.pod = now
	}
	p.stale = false
	return p.pod
}

// build returns a desired pod, or one that is being removed, with its present status.
func (v *view) build(s *shownPod) *v1.Pod {
	p, wanted := v.desired.Get(s.uid)
	if !wanted {
		p, wanted = v.unreadable[s.uid], v.unreadable[s.uid] != nil
	}
	var life worker.Life
	if v.workers != nil {
		life, _ = v.workers.Life(s.uid)
	}
	st, known := v.statuses.Get(s.uid)
	erased := life.Phase == worker.Gone || life.Phase == worker.Terminated && !known
	leaves := life.Removed && !erased
	switch {
	case leaves:
		p = life.Pod
	case !wanted:
		return nil
	}
	shown := *p
	switch {
	case known:
		shown.Status = st
	case v.listed:
		shown.Status = v1.PodStatus{Phase: v1.PodPending}
	case shown.Status.Phase == "": // else it is what the API server last knew
		shown.Status = v1.PodStatus{Phase: v1.PodUnknown, Reason: reasonRuntimeNotReady, Message: "The container runtime has not answered since the agent started"}
	}
	if shown.CreationTimestamp.IsZero() && shown.Status.StartTime != nil {
		shown.CreationTimestamp = *shown.Status.StartTime // a static pod has no creation time of an API server
	}
	if !leaves {
		s.leaving = time.Time{}
		return &shown
	}
	if s.leaving.IsZero() {
		s.leaving = time.Now()
	}
	if shown.DeletionTimestamp == nil {
		shown.DeletionTimestamp = &metav1.Time{Time: s.leaving}
	}
	return &shown
}

// since returns the changes after a version.
func (v *view) since(version uint64) pod.Changes {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := version == 0 || version < v.forgotten
	out := pod.Changes{All: all}
	for e := v.byVersion.Back(); e != nil && (all || shownAt(e).version > version); {
		before := e.Prev() // e may go
		if p := v.refresh(e); p != nil {
			out.Pods = append(out.Pods, p)
		}
		e = before
	}
	slices.SortFunc(out.Pods, func(x, y *v1.Pod) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	for i := len(v.gone) - 1; i >= 0 && v.gone[i].version > version && !all; i-- {
		if v.pods[v.gone[i].uid] == nil { // else it came back
			out.Gone = append(out.Gone, v.gone[i].uid)
		}
	}
	if out.NewRefusals = all || v.refusedAt > version; out.NewRefusals {
		out.Refused = slices.Clone(v.refused)
	}
	out.Version = v.version
	return out
}

func (v *view) watch() (changed <-chan struct{}, stop func()) {
	w := make(chan struct{}, 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.watchers[w] = struct{}{}
	return w, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.watchers, w)
	}
}

// notifyWatchers wakes all watchers. The caller holds the lock.
func (v *view) notifyWatchers() {
	for w := range v.watchers {
		select {
		case w <- struct{}{}:
		default: // the watcher has not received the last signal yet
		}
	}
}
