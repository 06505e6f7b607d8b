package agent

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// updateView updates pods in the view.
func (a *Agent) updateView(pods ...*v1.Pod) {
	for _, p := range pods {
		a.view.update(p.UID)
	}
}

// updateViewRefusals replaces the refusals in the view.
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

// List returns every pod of this node with its present status: the desired pods, and those that
// are being removed. The pods are shared and must not be changed.
func (a *Agent) List() ([]*v1.Pod, []pod.Refusal) {
	c := a.view.since(0)
	return c.Pods, c.Refused
}

// Since returns the changes of List since a version. Its cost depends on the number of changes,
// not of pods.
func (a *Agent) Since(version uint64) pod.Changes { return a.view.since(version) }

// Watch returns a channel that receives after every change of List, until ctx ends.
func (a *Agent) Watch(ctx context.Context) <-chan struct{} {
	changed, stop := a.view.watch()
	context.AfterFunc(ctx, stop)
	return changed
}
