package agent

import (
	"context"
	"time"

	"berth/internal/lib/run"
)

// Admission uses the version of the Node that was received last, which may be outdated: a
// controller may label the Node, and then bind a pod to it for that label. A rejection can't be
// undone. So no pod is rejected for a label, a taint or a resource of the Node before the Node
// was read once more.

// reloadTimeout is the time that one read may take. After that, pods are decided on by the version
// at hand.
const reloadTimeout = 5 * time.Second

// reloadNode reads the Node for all pods that wait for that. There is one read at a time: a
// pod that comes while it is in progress may have been bound for something that the read
// missed, and waits for the next.
func (a *Agent) reloadNode(group *run.Group) {
	pods := a.podsWith(waitingForNode)
	if a.reloading || len(pods) == 0 {
		return
	}
	a.reloading = true
	for _, p := range pods {
		a.states.apply(p.UID, readNode)
	}
	group.Go("read the node", func(ctx context.Context) {
		reading, cancel := context.WithTimeout(ctx, reloadTimeout)
		defer cancel()
		if err := a.ReloadNode(reading); err != nil && ctx.Err() == nil {
			a.Log.Warn("can't read the node again; pods are admitted by what was known of it", "err", err)
		}
		send(ctx, a.nodeReloaded, struct{}{})
	})
}

// handleNodeReloaded decides on the pods that waited for the read that is over.
func (a *Agent) handleNodeReloaded(group *run.Group) {
	a.reloading = false
	for _, p := range a.begunFirst(a.podsWith(waitingForRead)) {
		a.decideBy(group, p, true)
	}
	a.reloadNode(group)
}
