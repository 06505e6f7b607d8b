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

// decideBy is decide. nodeIsCurrent says that the Node was read since the pod came.
func (a *Agent) decideBy(group *run.Group, p *v1.Pod, nodeIsCurrent bool) {
	a.states.apply(p.UID, reconsider)
	if a.foundAtStart == nil {
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

// admit asks whether a pod may run here, and whether it fits at this moment. One that
// ran before the agent was restarted was asked then, and one that is being deleted, or
// has ended, only has to be stopped.
//
// While room is being made, a pod has to fit twice: beside those that have it now, and
// beside those that it is made for. Only a critical one can wait for the latter.
func (a *Agent) admit(p *v1.Pod) (d admit.Decision, fits bool) {
	if a.foundAtStart[p.UID] != nil || p.DeletionTimestamp != nil || pod.HasEnded(p) {
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

// tenants are the pods beside p: those that have room now, and those that have it
// once all are gone that were ended to make some.
// They are valid until it is called again.
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

// hasFreedRoom tells whether a pod that its source has needs no room any more. The end that is told
// of it may be that of its life before: it was revived, or it was removed and put back.
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

// needsRoom tells whether a pod counts in the occupancy.
func (a *Agent) needsRoom(p *v1.Pod) bool {
	if s := a.states.get(p.UID); s.admission == waitingForRoom || s.revived || !a.hasTerminalStatus(p) {
		return true
	}
	l, _ := a.workers.Life(p.UID)
	return l.Removed // the end is that of the life before: the pod was put back
}

// hasTerminalStatus tells whether a pod is known to have ended, and nothing of it runs. It needs
// no room any more, though its worker may still have to clean up behind it: everybody
// else reads the end of a pod as room for the next one.
func (a *Agent) hasTerminalStatus(p *v1.Pod) bool {
	s, told := a.Statuses.Get(p.UID)
	if !told {
		s = p.Status // as an agent before this one wrote it
	}
	return status.IsTerminal(&s)
}

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

// preempt ends pods that a critical one needs the room of. Whenever nothing of one of
// them runs any more, those who wait for room are asked for again.
func (a *Agent) preempt(group *run.Group, p *v1.Pod, victims []*v1.Pod) {
	if len(victims) == 0 {
		return // it waits for room that is being made for others
	}
	a.Metrics.Preempted(len(victims))
	for _, victim := range victims {
		a.states.apply(victim.UID, preempt)
		a.Log.Info("ending a pod to make room", "pod", pod.Ref(victim), "uid", victim.UID, "for", pod.Ref(p))
		a.Events.Record(victim, v1.EventTypeWarning, pod.ReasonPreempting, messagePreempted)
		a.workers.End(victim.UID, nil, pod.Cause{
			Why: "a critical pod needs its room", Reason: pod.ReasonPreempting, Message: messagePreempted, Disruption: messagePreempted,
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

// handleRoom asks once more for those that others had to make room for.
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
