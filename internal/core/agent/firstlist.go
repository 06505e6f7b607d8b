package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// A pod that the runtime held when the agent started was admitted before, and is not checked
// again. So no pod is admitted, started or stopped before the runtime was listed once. Until then
// pods are desired and readers see them, and the loop does all else: a runtime that hangs holds up
// nothing but its pods.

// firstListRetryInterval is the pause after a first list that failed.
const firstListRetryInterval = time.Second

// reasonRuntimeNotReady is the reason in the status of a pod before the first list.
const reasonRuntimeNotReady = "ContainerRuntimeNotReady"

// readRuntime lists the runtime, again after each failure, and sends the list to the loop.
func (a *Agent) readRuntime(ctx context.Context) {
	var streak logonce.Streak
	for {
		pods, err := a.InRuntime(ctx)
		if err == nil {
			if pods == nil {
				pods = map[pod.UID]*pod.Observed{}
			}
			send(ctx, a.listed, pods)
			return
		}
		if ctx.Err() == nil && streak.Failed(time.Now()) {
			a.Log.Warn("pods wait until the container runtime answers", "err", err)
		}
		select {
		case <-time.After(firstListRetryInterval):
		case <-ctx.Done():
			return
		}
	}
}

// handleListed decides on the pods that waited for the first list.
func (a *Agent) handleListed(group *run.Group, running map[pod.UID]*pod.Observed) {
	a.heldAtStart = running
	a.view.setListed()
	for uid, u := range a.unreadable {
		if have := running[uid]; have != nil {
			a.publishUnreadable(u, *have)
		}
	}
	a.updateViewUnreadable()
	for _, p := range a.begunFirst(a.Desired.Pods()) {
		switch state := a.states.admission(p.UID); {
		case state == waitingForSource && !a.ranAtStart(p.UID):
			a.publishSourceNotRead(p)
		case state == waitingForSource, state == waitingForRuntime:
			a.decideAfterWait(group, p)
		}
	}
	a.housekeep(group)
}

// decideAfterWait decides on a pod that waited for the first list or for its source. Its
// ephemeral containers may be of a life that is over, which was not known before.
func (a *Agent) decideAfterWait(group *run.Group, p *v1.Pod) {
	if pod.IsStatic(p) {
		a.forgetPastEphemeralContainers([]*v1.Pod{p})
		again := *p
		again.Spec.EphemeralContainers = nil // a manifest has none
		p = a.withEphemeralContainers(&again)
		a.Desired.Upsert(p)
	}
	a.decide(group, p)
}

// begunFirst sorts pods in the order of admission after a restart: pods that had begun keep their
// room, and the others get the rest, the oldest first.
func (a *Agent) begunFirst(pods []*v1.Pod) []*v1.Pod {
	begun := func(p *v1.Pod) int {
		if a.heldAtStart[p.UID] != nil || p.Status.Phase != "" && p.Status.Phase != v1.PodPending {
			return 0
		}
		return 1
	}
	sorted := oldestFirst(pods)
	slices.SortStableFunc(sorted, func(x, y *v1.Pod) int { return cmp.Compare(begun(x), begun(y)) })
	return sorted
}
