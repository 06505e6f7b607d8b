// Package merge turns the snapshots of sources into updates for the agent.
//
// A source sends all of its pods each time (pod.Set), or the pods of its state file after
// a restart (pod.Restore). The Merger holds the last accepted version of every pod, keyed
// by source and UID, and answers each snapshot with the difference. The updates of one
// source come in this order:
//
//	REMOVE     gone from the snapshot; carries the last known version
//	ADD        a UID that was not known
//	RESTORE    the same, out of a Restore snapshot
//	UPDATE     spec, labels, annotations or grace period differ
//	DELETE     as UPDATE, and the deletion time is set
//	RECONCILE  only the status differs
//
// Nothing else about a pod matters: a new resource version or new managed fields
// replace the version that is held and lead to no update. A pod that is first seen with its
// deletion time set is an ADD like any other: the agent must know a pod before
// it can terminate it, and finds the deletion time on it.
//
// Invariants:
//   - The first Set of a source delivers an ADD, empty if it must be. So "an ADD
//     came" means that everything of that source is known by now. A Restore never
//     delivers one.
//   - Every update carries all present refusals of its source. If nothing but the
//     refusals changed, an UPDATE without pods brings them (a RESTORE without pods,
//     before the first Set). The same RESTORE says that a source can't be read.
//   - A UID is held by one source only, and a namespace/name by one static pod
//     only. The pod that was there first stays. The other is refused, and is accepted
//     by itself once the first is gone, also if that was in another source.
//   - Pods of the API server take no part in the contest for names: its mirror pods
//     have the names of static pods, and the server alone decides on the others.
//   - A refused version never takes an accepted one down.
//   - The pods of snapshots are never written to. The pods of updates share memory with
//     them, and must not be written to either.
//
// The package is pure: time is an argument. A Merger belongs to one goroutine.
package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Mode is the form in which changes are delivered.
type Mode int

const (
	// Incremental delivers every change as its own operation. The agent uses it.
	Incremental Mode = iota
	// SnapshotAndUpdates delivers a SET with the pods of all sources when some
	// were added, restored or removed, and on a source's first Set; UPDATE and
	// DELETE come as increments. A change of status alone is not delivered.
	SnapshotAndUpdates
	// Snapshot delivers a SET with the pods of all sources whenever anything
	// changed, and on a source's first Set.
	Snapshot
)

// Merger holds the state of every source.
type Merger struct {
	mode    Mode
	sources map[string]*source
}

// source is the state of one source.
type source struct {
	name    string
	ready   bool // had its first Set
	known   podSet
	refused []pod.Refusal
	// unreadable is Snapshot.Unreadable of the newest snapshot.
	unreadable bool

	// waiting is the newest snapshot, if a pod in it was refused because of
	// another source: it is applied again when that source changes.
	waiting *pod.Snapshot
}

// New returns a Merger without pods.
func New(mode Mode) (*Merger, error) {
	if mode < Incremental || mode > Snapshot {
		return nil, fmt.Errorf("make a merger: unknown notification mode %d", mode)
	}
	return &Merger{mode: mode, sources: map[string]*source{}}, nil
}

// Merge applies a snapshot and returns the updates that follow from it, in order. Most
// updates are about the snapshot's own source; updates of other sources follow if one of
// their pods waited for a name or UID that has now become free.
//
// A Restore that comes after a Set is older than the Set, and is ignored; so is a
// snapshot with any other operation.
func (m *Merger) Merge(s pod.Snapshot, now time.Time) []pod.Update {
	src := m.source(s.Source)
	if s.Op != pod.Set && (s.Op != pod.Restore || src.ready) {
		return nil
	}
	return append(m.apply(src, s, now), m.retry(now)...)
}

// retry looks again at the pods that waited for another source. One that comes
// in may replace a last good version that was kept, and so free a UID for the
// next; each comes in but once, so this ends.
func (m *Merger) retry(now time.Time) []pod.Update {
	var updates []pod.Update
	for again := true; again; {
		again = false
		for _, src := range m.inOrder() {
			if src.waiting == nil {
				continue
			}
			before := src.known
			updates = append(updates, m.apply(src, *src.waiting, now)...)
			again = again || before.lost(src.known)
		}
	}
	return updates
}

// apply brings one source up to its snapshot.
func (m *Merger) apply(src *source, s pod.Snapshot, now time.Time) []pod.Update {
	if d, ok := m.quick(src, s, now); ok {
		return m.deliver(src, d)
	}
	return m.applyFull(src, s, now)
}

// applyFull brings one source up to its snapshot by comparing all of its pods.
func (m *Merger) applyFull(src *source, s pod.Snapshot, now time.Time) []pod.Update {
	accepted := m.accept(src, s)
	next, d := diff(src.known, accepted, s, now)
	d.first = s.Op == pod.Set && !src.ready
	d.refusals = !slices.Equal(src.refused, accepted.refused)
	d.unreadable = s.Unreadable && !src.unreadable

	src.known = next
	src.refused = accepted.refused
	src.unreadable = s.Unreadable
	src.ready = src.ready || s.Op == pod.Set
	src.waiting = nil
	if accepted.waits {
		s.Pods = slices.Clone(s.Pods)
		src.waiting = &s
	}
	return m.deliver(src, d)
}

func (m *Merger) source(name string) *source {
	src, ok := m.sources[name]
	if !ok {
		src = &source{name: name}
		m.sources[name] = src
	}
	return src
}

// inOrder returns the sources by name, so that the same input always gives the
// same output.
func (m *Merger) inOrder() []*source {
	return slices.SortedFunc(maps.Values(m.sources), func(a, b *source) int {
		return strings.Compare(a.name, b.name)
	})
}

// all returns the pods of every source.
func (m *Merger) all() []*v1.Pod {
	pods := []*v1.Pod{}
	for _, src := range m.inOrder() {
		for _, e := range src.known.entries {
			pods = append(pods, e.pod)
		}
	}
	return pods
}

func isStatic(source string) bool {
	return source == pod.SourceFile || source == pod.SourceHTTP
}
