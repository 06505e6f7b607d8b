package merge

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// accepted are the pods of a snapshot that are in force, and the refusals of the others.
type accepted struct {
	pods    []choice
	refused []pod.Refusal // those of the source, then those of merge in the order of the pods
	waits   bool          // a pod was refused because of another source
}

// choice is one accepted pod: a version out of the snapshot, or the known version
// that stays in force because its new version is invalid.
type choice struct {
	given *v1.Pod
	keep  *entry
}

// judge decides about the pods of one snapshot. Each slice runs along s.Pods.
type judge struct {
	m   *Merger
	src *source
	s   pod.Snapshot

	refusal []string // why the pod is refused; empty if accepted
	broken  []bool   // refused, and not because another pod has its name
	keep    []*entry // the known version that stays in place of a broken one

	uids  map[pod.UID]int  // index of the accepted pod with a UID
	names map[fullName]int // index of the accepted pod with a name; keeper for a known pod that stays
	waits bool
}

// keeper stands in judge.names for a known pod that stays.
const keeper = -1

// accept decides which pods of a snapshot come in. It changes nothing.
func (m *Merger) accept(src *source, s pod.Snapshot) accepted {
	j := judge{
		m: m, src: src, s: s,
		refusal: make([]string, len(s.Pods)),
		broken:  make([]bool, len(s.Pods)),
		keep:    make([]*entry, len(s.Pods)),
		uids:    make(map[pod.UID]int, len(s.Pods)),
		names:   make(map[fullName]int, len(s.Pods)),
	}
	j.validity()
	j.keepByUID()
	if isStatic(src.name) {
		j.contest()
		j.keepByName()
	}
	return j.result()
}

// breaks notes why pod i is no good: its last good version stays.
func (j *judge) breaks(i int, format string, args ...any) {
	j.refusal[i] = fmt.Sprintf(format, args...)
	j.broken[i] = true
}

// validity refuses the pods that are broken, and those whose UID is taken: by
// another source, or by a pod of another name or an earlier one in this.
func (j *judge) validity() {
	for i, p := range j.s.Pods {
		if p == nil {
			j.breaks(i, "the source handed over an empty entry")
			continue
		}
		e := j.src.known.byUID[p.UID]
		if e == nil || e.given != p { // an accepted pod has been through this
			if reason := problem(p, isStatic(j.src.name)); reason != "" {
				j.breaks(i, "%s", reason)
				continue
			}
		}
		holder := ""
		if e == nil {
			holder = j.m.holderOfUID(j.src, p.UID)
		}
		first, taken := j.uids[p.UID]
		switch {
		case holder != "":
			j.breaks(i, "UID %q already belongs to a pod of source %s: give this one another metadata.uid, or none", p.UID, holder)
			j.waits = true
		case e != nil && nameOf(e.pod) != nameOf(p):
			j.breaks(i, uidTaken, p.UID, pod.Ref(e.pod))
		case taken:
			j.breaks(i, uidTaken, p.UID, pod.Ref(j.s.Pods[first]))
		default:
			j.uids[p.UID] = i
		}
	}
}

const uidTaken = "UID %q already belongs to %s: give this one another metadata.uid, or none"

// keepByUID keeps the known versions of pods that came broken. In a Restore,
// which takes nothing away, all known pods stay.
func (j *judge) keepByUID() {
	if j.s.Op == pod.Restore {
		for _, e := range j.src.known.entries {
			j.names[nameOf(e.pod)] = keeper
		}
	}
	for i, p := range j.s.Pods {
		if !j.broken[i] || p == nil {
			continue
		}
		if e := j.src.known.byUID[p.UID]; e != nil && !j.comesIn(e) {
			j.keep[i] = e
			j.names[nameOf(e.pod)] = keeper
		}
	}
}

// comesIn reports whether a good version of a known pod is in the snapshot.
func (j *judge) comesIn(e *entry) bool {
	_, ok := j.uids[e.pod.UID]
	return ok
}

// contest lets one pod have each name: a known one, else the first.
func (j *judge) contest() {
	for i, p := range j.s.Pods {
		if j.refusal[i] != "" || !j.hasPod(p) {
			continue
		}
		j.names[nameOf(p)] = i
	}
	for i, p := range j.s.Pods {
		if j.refusal[i] != "" || j.hasPod(p) {
			continue
		}
		name := nameOf(p)
		if holder := j.m.holderOfName(j.src, name); holder != "" {
			j.refusal[i] = fmt.Sprintf("%s is already defined by source %s: rename one of the two, or remove it", pod.Ref(p), holder)
			j.waits = true
			continue
		}
		if _, taken := j.names[name]; taken {
			j.refusal[i] = fmt.Sprintf("%s is already defined by another manifest of source %s: rename one of the two, or remove it",
				pod.Ref(p), j.src.name)
			continue
		}
		j.names[name] = i
	}
}

func (j *judge) hasPod(p *v1.Pod) bool { return j.src.known.byUID[p.UID] != nil }

// keepByName keeps the known version of a static pod that came broken under
// another UID: static pods get a new one with every edit. A good pod of that
// name in the same snapshot goes first.
func (j *judge) keepByName() {
	for i, p := range j.s.Pods {
		if !j.broken[i] || p == nil || j.keep[i] != nil {
			continue
		}
		e := j.src.known.byName[nameOf(p)]
		if e == nil {
			continue
		}
		if holder, taken := j.names[nameOf(p)]; !taken || holder == keeper {
			j.keep[i] = e
			j.names[nameOf(p)] = keeper
		}
	}
}

func (j *judge) result() accepted {
	a := accepted{waits: j.waits}
	a.refused = append(a.refused, j.s.Refused...)
	kept := map[*entry]bool{}
	for i, p := range j.s.Pods {
		if j.refusal[i] == "" {
			a.pods = append(a.pods, choice{given: p})
			continue
		}
		refusal := pod.Refusal{Source: j.src.name, Message: j.refusal[i], Kept: j.keep[i] != nil}
		if p != nil && p.Name != "" {
			refusal.Pod = pod.Ref(p)
		}
		a.refused = append(a.refused, refusal)
		if e := j.keep[i]; e != nil && !kept[e] {
			kept[e] = true
			a.pods = append(a.pods, choice{keep: e})
		}
	}
	return a
}

// holderOfUID names the other source that holds a UID, if one does.
func (m *Merger) holderOfUID(src *source, uid pod.UID) string {
	for _, other := range m.sources {
		if other != src && other.known.byUID[uid] != nil {
			return other.name
		}
	}
	return ""
}

// holderOfName names the other static source that holds a name, if one does.
func (m *Merger) holderOfName(src *source, name fullName) string {
	for _, other := range m.sources {
		if other != src && isStatic(other.name) && other.known.byName[name] != nil {
			return other.name
		}
	}
	return ""
}
