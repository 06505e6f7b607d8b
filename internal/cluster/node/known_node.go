package node

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Synced is closed once the server has our Node.
func (r *Reporter) Synced() <-chan struct{} { return r.known }

// Node is our Node as the server last showed it, or nil. It must not be written to,
// and stays as it is: asking costs nothing, and whoever needs the newest asks again.
func (r *Reporter) Node() *v1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// uid is that of our Node, once it is known.
func (r *Reporter) uid() types.UID {
	if node := r.Node(); node != nil {
		return node.UID
	}
	return ""
}

// observeNode takes in a Node of our name that a watch showed.
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
		// Old news, or somebody made it anew. The one to find out is the writer.
		r.markStale()
	case news:
		r.publishChange(known, node)
		nudge(r.wakeNode)
	}
}

// observeDeletion takes in that a Node is gone.
func (r *Reporter) observeDeletion(uid types.UID) {
	if uid == r.uid() {
		r.markStale()
	}
}

// markStale has the Node read again before it is written.
func (r *Reporter) markStale() {
	r.mu.Lock()
	r.stale = true
	r.mu.Unlock()
	nudge(r.wakeNode)
}

// newer tells whether a is a later version of b.
func newer(a, b *v1.Node) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err != nil || order > 0
}

// setNode takes in what the server answered to the writer, who knew the Node as
// before. If the watch has seen more meanwhile, that stays. An older version is taken
// in, too, if it has not: the server's data may be a backup's.
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
		nudge(r.wakeLease) // its owner is another
		// A server that lost all of its data is silent to whoever watches from a
		// version that it has not got to yet.
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

// publishChange says what is new about a Node that is still the same.
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
