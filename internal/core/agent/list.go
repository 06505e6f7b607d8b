package agent

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// updateView lets readers see pods as they are now.
func (a *Agent) updateView(pods ...*v1.Pod) {
	for _, p := range pods {
		a.view.update(p.UID)
	}
}

// updateViewRefusals lets readers see the newest refusals.
func (a *Agent) updateViewRefusals() {
	var all []pod.Refusal
	for _, refused := range a.refused {
		all = append(all, refused...)
	}
	slices.SortFunc(all, func(x, y pod.Refusal) int {
		return strings.Compare(x.Origin+x.Pod+x.Object+x.Message, y.Origin+y.Pod+y.Object+y.Message)
	})
	a.view.setRefused(all)
}

// List returns every pod of this node with its present status: those that are
// wanted, and those that are still on their way out. Nobody writes to these pods.
func (a *Agent) List() ([]*v1.Pod, []pod.Refusal) {
	c := a.view.since(0)
	return c.Pods, c.Refused
}

// Since returns how List differs from what it was at a version. It costs what changed,
// not what there is.
func (a *Agent) Since(version uint64) pod.Changes { return a.view.since(version) }

// Watch returns a channel that says "list again" after every change, until ctx ends.
func (a *Agent) Watch(ctx context.Context) <-chan struct{} {
	changed, stop := a.view.watch()
	context.AfterFunc(ctx, stop)
	return changed
}
