package merge

import (
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// entry is one accepted pod.
type entry struct {
	given *v1.Pod // as in the snapshot
	pod   *v1.Pod // as in updates: with berth's annotations
}

// fullName is a pod's name within its node.
type fullName struct{ namespace, name string }

func nameOf(p *v1.Pod) fullName { return fullName{p.Namespace, p.Name} }

// podSet is an ordered set of accepted pods. It is built anew for each snapshot, unless
// quick brings it on.
type podSet struct {
	entries []*entry
	byUID   map[pod.UID]*entry
	byName  map[fullName]*entry // of no use for the API's pods, whose names may repeat
}

func newPodSet(entries []*entry) podSet {
	k := podSet{
		entries: entries,
		byUID:   make(map[pod.UID]*entry, len(entries)),
		byName:  make(map[fullName]*entry, len(entries)),
	}
	for _, e := range entries {
		k.byUID[e.pod.UID] = e
		k.byName[nameOf(e.pod)] = e
	}
	return k
}

// lost reports whether a pod of k is no longer in next.
func (k podSet) lost(next podSet) bool {
	for _, e := range k.entries {
		if next.byUID[e.pod.UID] == nil {
			return true
		}
	}
	return false
}
