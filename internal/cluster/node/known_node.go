package node

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"berth/internal/lib/run"
)

// Synced is closed once our Node is known to be at the API server.
func (r *Reporter) Synced() <-chan struct{} { return r.known }

// Node returns our Node as the API server had it last, or nil. It must not be written to. A newer
// version replaces it and does not change it, so a caller that needs the newest calls again.
func (r *Reporter) Node() *v1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// uid returns the UID of our Node, or "" as long as the Node is not known.
func (r *Reporter) uid() types.UID {
	if node := r.Node(); node != nil {
		return node.UID
	}
	return ""
}

// observeNode stores a newer version of our Node that the watch delivered.
func (r *Reporter) observeNode(node *v1.Node) {
	r.mu.Lock()
	known := r.node
	ours := known.UID == node.UID
	news := ours && newer(node, known)
	if news {
		r.node = node
	}
	r.mu.Unlock()
	switch {
	case !ours:
		// An event about a Node of the past, or the Node was deleted and created again: the
		// writer reads the Node to find out.
		r.markStale()
	case news:
		r.publishChange(known, node)
		run.Notify(r.wakeNode)
	}
}

// observeDeletion handles the deletion of a Node of our name.
func (r *Reporter) observeDeletion(uid types.UID) {
	if uid == r.uid() {
		r.markStale()
	}
}

// markStale makes the writer read the Node before the next patch.
func (r *Reporter) markStale() {
	r.mu.Lock()
	r.stale = true
	r.mu.Unlock()
	run.Notify(r.wakeNode)
}

// newer reports whether a is a later version of b.
func newer(a, b *v1.Node) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err != nil || order > 0
}

// setNode stores the Node that the API server returned to the writer. before is the Node that
// was known when the writer made its request. A newer version that the watch has delivered
// meanwhile stays. Otherwise an older version is stored, too: the API server may have been
// restored from a backup.
func (r *Reporter) setNode(node, before *v1.Node) {
	r.mu.Lock()
	known := r.node
	if known != before && known.UID == node.UID && !newer(node, known) {
		r.mu.Unlock()
		return
	}
	r.node = node
	end := r.endWatch
	r.mu.Unlock()
	if known != nil && known.UID == node.UID {
		r.publishChange(known, node)
		return
	}

	again := known != nil
	if again {
		run.Notify(r.wakeLease) // the owner of the Lease has changed
		// An API server that lost all of its data sends nothing to a watch that begins at a
		// version which the server has not reached yet.
		if end != nil {
			end()
		}
	} else {
		close(r.known)
	}
	if r.config.Registered != nil {
		r.config.Registered(node.UID, again)
	}
	r.notifyChanged()
}

// publishChange records an event if the Node was cordoned or uncordoned, and calls
// Config.Changed if one of its fields changed that pods depend on.
func (r *Reporter) publishChange(before, after *v1.Node) {
	if before.Spec.Unschedulable != after.Spec.Unschedulable {
		reason := "NodeSchedulable"
		if after.Spec.Unschedulable {
			reason = "NodeNotSchedulable"
		}
		r.config.Events.RecordNode(v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", after.Name, reason))
	}
	if !same(before.Labels, after.Labels) || !same(before.Spec.Taints, after.Spec.Taints) ||
		!same(before.Status.Allocatable, after.Status.Allocatable) || !same(before.Status.VolumesAttached, after.Status.VolumesAttached) {
		r.notifyChanged()
	}
}

func (r *Reporter) notifyChanged() {
	if r.config.Changed != nil {
		r.config.Changed()
	}
}
