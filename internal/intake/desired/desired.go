// Package desired is the set of pods that this node is asked to run.
//
// A static pod (from a file or a URL) may have a mirror pod: a copy that the API
// server holds so that people can see it there. A mirror pod has the name of
// its static pod and a UID of its own. It is held apart, is never among the pods
// to run, and is an orphan once its static pod is gone.
//
// One goroutine writes: the agent's loop. Any goroutine may read at any time, and gets
// slices of its own; the pods in them are shared, and must not be written to.
package desired

import (
	"cmp"
	"iter"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Set is the desired set.
type Set struct {
	mu          sync.RWMutex
	pods        index
	mirrors     index
	subscribers []func(pod.UID)
}

// New returns an empty set.
func New() *Set {
	return &Set{pods: newIndex(), mirrors: newIndex()}
}

// Subscribe has f called with each pod that is written or dropped, from now on, by the
// goroutine that does so. f must not block.
func (s *Set) Subscribe(f func(pod.UID)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(slices.Clone(s.subscribers), f)
}

// notify calls the subscribers. The lock is not held: they may read.
func (s *Set) notify(uid pod.UID) {
	s.mu.RLock()
	subscribers := s.subscribers
	s.mu.RUnlock()
	for _, f := range subscribers {
		f(uid)
	}
}

// Upsert adds a pod, or replaces it by a new version.
func (s *Set) Upsert(p *v1.Pod) {
	s.insert(p)
	s.notify(p.UID)
}

func (s *Set) insert(p *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods.remove(p.UID)
	s.mirrors.remove(p.UID)
	if pod.IsMirror(p) {
		s.mirrors.insert(p)
	} else {
		s.pods.insert(p)
	}
}

// Remove drops a pod. A pod that is not in the set is no error: a removal may come twice.
func (s *Set) Remove(uid pod.UID) {
	s.drop(uid)
	s.notify(uid)
}

func (s *Set) drop(uid pod.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods.remove(uid)
	s.mirrors.remove(uid)
}

// Get returns the pod of that UID, if it is one to run.
func (s *Set) Get(uid pod.UID) (*v1.Pod, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.pods.byUID[uid]
	return p, ok
}

// Mirror returns the mirror pod of that UID.
func (s *Set) Mirror(uid pod.UID) (*v1.Pod, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.mirrors.byUID[uid]
	return p, ok
}

// ByFullName returns the pod to run of that full name (see pod.FullName).
// Where several bear it, a static pod goes first, and then the youngest.
func (s *Set) ByFullName(fullName string) (*v1.Pod, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pods.first(fullName)
}

// Pods returns the pods to run, by namespace, name and UID.
func (s *Set) Pods() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.pods.sorted)
}

// All goes through what Pods returns, without a copy. Nothing may be written meanwhile.
func (s *Set) All() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		slices.Values(s.pods.sorted)(yield)
	}
}

// MirrorOf returns the mirror pod of a static pod.
func (s *Set) MirrorOf(p *v1.Pod) (*v1.Pod, bool) {
	if !pod.IsStatic(p) || pod.IsMirror(p) {
		return nil, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mirrors.first(pod.FullName(p))
}

// StaticOf returns the static pod that a mirror pod stands for.
func (s *Set) StaticOf(mirror *v1.Pod) (*v1.Pod, bool) {
	if !pod.IsMirror(mirror) {
		return nil, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.staticOf(mirror)
}

func (s *Set) staticOf(mirror *v1.Pod) (*v1.Pod, bool) {
	p, ok := s.pods.first(pod.FullName(mirror))
	if !ok || !pod.IsStatic(p) {
		return nil, false
	}
	return p, true
}

// OrphanedMirrors returns the mirror pods whose static pod is gone, in the order
// of Pods.
func (s *Set) OrphanedMirrors() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*v1.Pod
	for _, mirror := range s.mirrors.sorted {
		if _, ok := s.staticOf(mirror); !ok {
			out = append(out, mirror)
		}
	}
	return out
}

// MirrorsNamed returns the mirror pods of that full name.
func (s *Set) MirrorsNamed(fullName string) []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.mirrors.byName[fullName])
}

// index finds pods by UID and by full name. Several may share a name for a while:
// one that goes and the next of its kind.
type index struct {
	byUID  map[pod.UID]*v1.Pod
	byName map[string][]*v1.Pod // the one to be found first
	sorted []*v1.Pod            // by inOrder
}

func newIndex() index {
	return index{byUID: map[pod.UID]*v1.Pod{}, byName: map[string][]*v1.Pod{}}
}

// insert takes in a pod whose UID is not there.
func (x *index) insert(p *v1.Pod) {
	x.byUID[p.UID] = p
	at, _ := slices.BinarySearchFunc(x.sorted, p, inOrder)
	x.sorted = slices.Insert(x.sorted, at, p)
	name := pod.FullName(p)
	x.byName[name] = append(x.byName[name], p)
	slices.SortFunc(x.byName[name], precedence)
}

func (x *index) remove(uid pod.UID) {
	p, ok := x.byUID[uid]
	if !ok {
		return
	}
	delete(x.byUID, uid)
	if at, found := slices.BinarySearchFunc(x.sorted, p, inOrder); found {
		x.sorted = slices.Delete(x.sorted, at, at+1)
	}
	name := pod.FullName(p)
	x.byName[name] = slices.DeleteFunc(x.byName[name], func(q *v1.Pod) bool { return q == p })
	if len(x.byName[name]) == 0 {
		delete(x.byName, name)
	}
}

func (x index) first(fullName string) (*v1.Pod, bool) {
	pods := x.byName[fullName]
	if len(pods) == 0 {
		return nil, false
	}
	return pods[0], true
}

// inOrder compares pods by namespace, name and UID: no two are equal.
func inOrder(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// precedence orders pods of one name: static ones, then the youngest.
func precedence(a, b *v1.Pod) int {
	if pod.IsStatic(a) != pod.IsStatic(b) {
		if pod.IsStatic(a) {
			return -1
		}
		return 1
	}
	return cmp.Or(pod.Created(b).Compare(pod.Created(a)), cmp.Compare(a.UID, b.UID))
}
