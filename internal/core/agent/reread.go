package agent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// The Node that admission goes by is the one that was seen last, and others may have
// changed it since: who labels a node, and then binds a pod to it for that label,
// counts on it. A rejection can't be taken back. So nobody is rejected for what stands
// on the Node before it was read once more.

// rereadPatience is for how long such a pod waits for one read. After that, what is
// known has to do.
const rereadPatience = 5 * time.Second

// doubt has a pod wait until the Node was read again.
func (a *Agent) doubt(group *run.Group, p *v1.Pod) {
	a.waiting[p.UID] = forNode
	a.doubtful = append(a.doubtful, p.UID)
	a.readNode(group)
}

// readNode reads the Node for all who wait for that. There is one read at a time: who
// comes while it goes on may know of something that it missed, and waits for the next.
func (a *Agent) readNode(group *run.Group) {
	if a.reading || len(a.doubtful) == 0 {
		return
	}
	a.reading = true
	pods := a.doubtful
	a.doubtful = nil
	group.Go("read the node", func(ctx context.Context) {
		reading, cancel := context.WithTimeout(ctx, rereadPatience)
		defer cancel()
		if err := a.ReloadNode(reading); err != nil && ctx.Err() == nil {
			a.Log.Warn("can't read the node again; pods are admitted by what was known of it", "err", err)
		}
		send(ctx, a.nodeRead, pods)
	})
}

// handleReread decides on those who waited for a read.
func (a *Agent) handleReread(group *run.Group, pods []pod.UID) {
	a.reading = false
	for _, uid := range pods {
		if p, wanted := a.Desired.Get(uid); wanted && a.waiting[uid] == forNode {
			delete(a.waiting, uid)
			a.decide(group, p, true)
		}
	}
	a.readNode(group)
}
