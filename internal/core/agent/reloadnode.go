package agent

import (
	"context"
	"time"

	"berth/internal/lib/run"
)

// The Node that admission goes by is the one that was seen last, and others may have
// changed it since: who labels a node, and then binds a pod to it for that label,
// counts on it. A rejection can't be taken back. So nobody is rejected for what stands
// on the Node before it was read once more.

// reloadTimeout is for how long such a pod waits for one read. After that, what is
// known has to do.
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
