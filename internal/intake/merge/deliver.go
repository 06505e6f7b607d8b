package merge

import (
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// deliver words a difference in the way that the receiver asked for.
func (m *Merger) deliver(src *source, d difference) []pod.Update {
	switch m.mode {
	case SnapshotAndUpdates:
		return m.snapshotAndUpdates(src, d)
	case Snapshot:
		return m.snapshot(src, d)
	default:
		return incremental(src, d)
	}
}

func incremental(src *source, d difference) []pod.Update {
	var out updates
	out.some(src, pod.Remove, d.removed)
	if d.first {
		out.add(src, pod.Add, d.added)
	} else {
		out.some(src, pod.Add, d.added)
	}
	out.some(src, pod.Restore, d.restored)
	out.some(src, pod.Change, d.changed)
	out.some(src, pod.Delete, d.deleted)
	out.some(src, pod.Reconcile, d.reconciled)
	if len(out) == 0 && (d.refusals || d.unreadable) {
		out.add(src, refusalsOnly(src), nil)
	}
	return out
}

func (m *Merger) snapshotAndUpdates(src *source, d difference) []pod.Update {
	var out updates
	if d.first || len(d.removed)+len(d.added)+len(d.restored) > 0 {
		out.add(src, pod.Set, m.all())
	}
	out.some(src, pod.Change, d.changed)
	out.some(src, pod.Delete, d.deleted)
	if len(out) == 0 && (d.refusals || d.unreadable) {
		out.add(src, refusalsOnly(src), nil)
	}
	return out
}

func (m *Merger) snapshot(src *source, d difference) []pod.Update {
	changes := len(d.removed) + len(d.added) + len(d.restored) + len(d.changed) + len(d.deleted) + len(d.reconciled)
	var out updates
	if d.first || d.refusals || d.unreadable || changes > 0 {
		out.add(src, pod.Set, m.all())
	}
	return out
}

// refusalsOnly is the operation that brings no pods. It must not
// make a source look ready that is not.
func refusalsOnly(src *source) pod.Op {
	if src.ready {
		return pod.Change
	}
	return pod.Restore
}

// updates is a delivery in the making.
type updates []pod.Update

// add appends an update, with or without pods.
func (u *updates) add(src *source, op pod.Op, pods []*v1.Pod) {
	*u = append(*u, pod.Update{Source: src.name, Op: op, Pods: pods, Refused: src.refused, Unreadable: src.unreadable})
}

// some appends an update if there are pods in it.
func (u *updates) some(src *source, op pod.Op, pods []*v1.Pod) {
	if len(pods) > 0 {
		u.add(src, op, pods)
	}
}
