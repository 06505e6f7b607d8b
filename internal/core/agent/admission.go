package agent

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/admit"
	"berth/internal/core/status"
	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// decide admits a pod, rejects it, or makes room for it first. Pods are decided on one after
// the other, so that no two are promised the same room.
func (a *Agent) decide(group *run.Group, p *v1.Pod) { a.decideBy(group, p, a.ReloadNode == nil) }

// decideBy is decide with the answer to one question: nodeIsCurrent says that the Node was read
// since the pod came.
func (a *Agent) decideBy(group *run.Group, p *v1.Pod, nodeIsCurrent bool) {
	a.states.apply(p.UID, reconsider)
	if a.heldAtStart == nil {
		a.states.apply(p.UID, awaitRuntime)
		return
	}
	a.replaceUnreadable(p)
	if a.holdBack(p) {
		return
	}
	switch d, fits := a.admit(p); {
	case d.Reject != nil && d.Reject.ByNode() && !nodeIsCurrent:
		a.states.apply(p.UID, awaitNode)
		a.reloadNode(group)
	case d.Reject != nil:
		a.reject(p, d.Reject)
	case !fits:
		a.states.apply(p.UID, awaitRoom)
		a.preempt(group, p, d.Preempt)
	default:
		a.states.apply(p.UID, admitPod)
		a.workers.Desire(p)
	}
}

// admit returns whether a pod may run on this node, and whether it fits at this moment. A pod that
// the runtime held when the agent started was admitted before. A pod that is being deleted, or has
// ended, only has to be stopped.
//
// While preempted pods end, a pod has to fit twice: beside the pods that have room now, and beside
// those that will have it. Only a critical pod can wait until it fits now.
func (a *Agent) admit(p *v1.Pod) (d admit.Decision, fits bool) {
	if a.heldAtStart[p.UID] != nil || p.DeletionTimestamp != nil || pod.HasEnded(p) {
		return admit.Decision{}, true
	}
	node := a.Node()
	node.ShuttingDown = node.ShuttingDown || a.hold != nil
	if a.occupancy.update(a.needsRoom); a.occupancy.counted.Admits(p, node) {
		return admit.Decision{}, true
	}
	now, then := a.tenants(p)
	d = a.memo.Decide(p, then, node)
	if d.Reject != nil || len(d.Preempt) > 0 || slices.Equal(now, then) {
		return d, len(d.Preempt) == 0
	}
	r := a.memo.Check(p, now, node)
	if !pod.IsCritical(p) {
		d.Reject = r
	}
	return d, r == nil
}

// tenants returns the pods beside p: those that have room now, and those that have room once the
// preempted pods have ended. Both slices are valid until the next call.
func (a *Agent) tenants(p *v1.Pod) (now, then []*v1.Pod) {
	now, then = a.tenantsNow[:0], a.tenantsThen[:0]
	for other := range a.Desired.All() {
		switch state := a.states.admission(other.UID); {
		case other.UID == p.UID:
		case state == waitingForRoom:
			then = append(then, other)
		case !state.hasRoom() || a.hasFreedRoom(other):
		case state == preempted:
			now = append(now, other)
		default:
			now, then = append(now, other), append(then, other)
		}
	}
	a.tenantsNow, a.tenantsThen = now, then
	return now, then
}

// hasFreedRoom reports whether a pod that its source has needs no room any more. A terminal
// status may be that of its life before: it was revived, or it was removed and put back.
func (a *Agent) hasFreedRoom(p *v1.Pod) bool {
	l, _ := a.workers.Life(p.UID)
	if l.Removed {
		return false
	}
	over := a.hasTerminalStatus(p)
	if l.Phase >= worker.Terminated || !over {
		a.states.apply(p.UID, settle)
	}
	return l.Phase >= worker.Terminated || over && !a.states.get(p.UID).revived
}

// needsRoom reports whether a pod counts in the occupancy.
func (a *Agent) needsRoom(p *v1.Pod) bool {
	if s := a.states.get(p.UID); s.admission == waitingForRoom || s.revived || !a.hasTerminalStatus(p) {
		return true
	}
	l, _ := a.workers.Life(p.UID)
	return l.Removed // the status is that of the life before: the pod was put back
}

// hasTerminalStatus reports whether the status of a pod says that it has ended and nothing of it
// runs. Such a pod needs no room, though its worker may still clean up: a scheduler, too, counts
// the room of an ended pod as free.
func (a *Agent) hasTerminalStatus(p *v1.Pod) bool {
	s, known := a.Statuses.Get(p.UID)
	if !known {
		s = p.Status // as the agent wrote it before it was restarted
	}
	return status.IsTerminal(&s)
}

// reject sets the status of a pod to Failed.
func (a *Agent) reject(p *v1.Pod, r *admit.Rejection) {
	a.Log.Warn("pod rejected", "pod", pod.Ref(p), "uid", p.UID, "reason", r.Reason, "message", r.Message)
	a.Events.Record(p, v1.EventTypeWarning, r.Reason, r.Message)
	a.Metrics.Rejected(r.Reason)
	a.states.apply(p.UID, reject)
	s := status.Failed(p, r.Reason, r.Message, time.Now())
	a.Statuses.Set(p.UID, s)
	a.Upstream.Publish(p, s)
}

const messagePreempted = "Preempted in order to admit critical pod"

// preempt ends pods whose room a critical pod needs. As soon as nothing of one of them runs, the
// pods that wait for room are decided on again.
func (a *Agent) preempt(group *run.Group, p *v1.Pod, victims []*v1.Pod) {
	if len(victims) == 0 {
		return // pods that were preempted for another one will free enough
	}
	a.Metrics.Preempted(len(victims))
	for _, victim := range victims {
		a.states.apply(victim.UID, preempt)
		a.Log.Info("ending a pod to make room", "pod", pod.Ref(victim), "uid", victim.UID, "for", pod.Ref(p))
		a.Events.Record(victim, v1.EventTypeWarning, pod.ReasonPreempting, messagePreempted)
		a.workers.End(victim.UID, nil, pod.Cause{
			Description: "a critical pod needs its room", Reason: pod.ReasonPreempting, Message: messagePreempted, Disruption: messagePreempted,
		})
		ended := a.workers.Ended(victim.UID)
		group.Go("make room", func(ctx context.Context) {
			select {
			case <-ended:
				send(ctx, a.roomFreed, struct{}{})
			case <-ctx.Done():
			}
		})
	}
}

// handleRoom decides once more on the pods that wait for room.
func (a *Agent) handleRoom(group *run.Group) {
	for _, p := range oldestFirst(a.podsWith(waitingForRoom)) {
		a.decide(group, p)
	}
}

// podsWith returns the desired pods in one state of admission.
func (a *Agent) podsWith(state admission) []*v1.Pod {
	if a.states.counts[state] == 0 {
		return nil
	}
	var out []*v1.Pod
	for p := range a.Desired.All() {
		if a.states.admission(p.UID) == state {
			out = append(out, p)
		}
	}
	return out
}
