package merge

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// quickLimit is how many pods of a snapshot may differ for quick. It is more than an API
// server changes at a time.
const quickLimit = 16

// quick is accept and diff for the snapshot that an API server sends most often: all
// pods as before, but for a few that are next to each other. It costs what differs, not
// what is known. It is false, and has changed nothing, if the snapshot is not like that,
// or if there is anything to refuse, now or before.
func (m *Merger) quick(src *source, s pod.Snapshot, now time.Time) (difference, bool) {
	if s.Op != pod.Set || !src.ready || isStatic(src.name) || len(s.Refused)+len(src.refused) > 0 || src.waiting != nil {
		return difference{}, false
	}
	old := src.known.entries
	first := 0
	for first < min(len(old), len(s.Pods)) && old[first].given == s.Pods[first] {
		first++
	}
	same := 0 // at the end
	for same < min(len(old), len(s.Pods))-first && old[len(old)-1-same].given == s.Pods[len(s.Pods)-1-same] {
		same++
	}
	gone, come := old[first:len(old)-same], s.Pods[first:len(s.Pods)-same]
	if len(gone)+len(come) > quickLimit || !m.unquestioned(src, gone, come) {
		return difference{}, false
	}

	var d difference
	entries := make([]*entry, 0, len(come))
	for _, p := range come {
		was := src.known.byUID[p.UID]
		e := was
		switch {
		case was == nil:
			e = newEntry(p, s.Source, now)
			d.added = append(d.added, e.pod)
		case was.given != p:
			e = newEntry(p, s.Source, pod.FirstSeen(was.pod))
			d.add(was.pod, e.pod)
		}
		entries = append(entries, e)
	}
	for _, e := range gone {
		if !slices.ContainsFunc(come, func(p *v1.Pod) bool { return p.UID == e.pod.UID }) {
			d.removed = append(d.removed, e.pod)
		}
	}
	src.known.replace(first, gone, entries)
	return d, true
}

// unquestioned reports whether all pods that come would be accepted in the place of those
// that are gone.
func (m *Merger) unquestioned(src *source, gone []*entry, come []*v1.Pod) bool {
	for i, p := range come {
		if p == nil || problem(p, false) != "" {
			return false
		}
		if slices.ContainsFunc(come[:i], func(q *v1.Pod) bool { return q.UID == p.UID }) {
			return false
		}
		switch e := src.known.byUID[p.UID]; {
		case e == nil:
			if m.holderOfUID(src, p.UID) != "" {
				return false
			}
		case !slices.Contains(gone, e) || nameOf(e.pod) != nameOf(p):
			return false
		}
	}
	return true
}

// replace puts entries in the place of others, which begin at an index.
func (k *podSet) replace(at int, gone, entries []*entry) {
	for _, e := range gone {
		delete(k.byUID, e.pod.UID)
		if k.byName[nameOf(e.pod)] == e {
			delete(k.byName, nameOf(e.pod))
		}
	}
	for _, e := range entries {
		k.byUID[e.pod.UID] = e
		k.byName[nameOf(e.pod)] = e
	}
	k.entries = slices.Replace(k.entries, at, at+len(gone), entries...)
}
