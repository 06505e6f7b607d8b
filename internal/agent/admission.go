package agent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/admit"
	"berth/internal/pod"
	"berth/internal/run"
	"berth/internal/status"
	"berth/internal/worker"
)

// takeIn lets a new pod run, refuses it, or makes room for it first. Pods are
// taken in one after the other, so that none is promised what another was given.
func (a *Agent) takeIn(group *run.Group, p *v1.Pod) {
	if a.holdBack(p) {
		return
	}
	switch d := a.admit(p); {
	case d.Reject != nil:
		a.reject(p, d.Reject)
	case len(d.Preempt) > 0:
		a.preempt(group, p, d.Preempt)
	default:
		a.admitted[p.UID] = true
		a.workers.Desire(p)
	}
}

// admit asks whether a pod may run here. One that ran before the agent was
// restarted was asked then, and one that is being deleted, or has ended, only has
// to be stopped.
func (a *Agent) admit(p *v1.Pod) admit.Decision {
	if a.Running[p.UID] != nil || p.DeletionTimestamp != nil || pod.HasEnded(p) {
		return admit.Decision{}
	}
	lives := a.workers.Lives()
	var others []*v1.Pod
	for _, other := range a.Desired.Pods() {
		ended := lives[other.UID].Phase >= worker.Terminated || a.isOver(other)
		if other.UID != p.UID && a.admitted[other.UID] && !ended {
			others = append(others, other)
		}
	}
	node := a.Node()
	node.ShuttingDown = node.ShuttingDown || a.hold != nil
	return admit.Decide(p, others, node)
}

// isOver tells whether a pod is known to have ended, and nothing of it runs. It needs
// no room any more, though its worker may still have to clean up behind it: everybody
// else reads the end of a pod as room for the next one.
func (a *Agent) isOver(p *v1.Pod) bool {
	s, told := a.Statuses.Get(p.UID)
	if !told {
		s = p.Status // as an agent before this one wrote it
	}
	return status.Over(&s)
}

func (a *Agent) reject(p *v1.Pod, r *admit.Rejection) {
	a.Log.Warn("pod rejected", "pod", pod.Ref(p), "uid", p.UID, "reason", r.Reason, "message", r.Message)
	a.Events.Record(p, v1.EventTypeWarning, r.Reason, r.Message)
	a.Counter.Rejected(r.Reason)
	a.rejected[p.UID] = true
	s := status.Failed(p, r.Reason, r.Message, time.Now())
	a.Statuses.Set(p.UID, s)
	a.Upstream.Publish(p, s)
}

const preempted = "Preempted in order to admit critical pod"

// preempt ends pods that a critical one needs the room of. When nothing of them
// runs any more, that one is asked for again.
func (a *Agent) preempt(group *run.Group, p *v1.Pod, victims []*v1.Pod) {
	a.waiting[p.UID] = true
	a.Counter.Preempted(len(victims))
	for _, victim := range victims {
		a.Log.Info("ending a pod to make room", "pod", pod.Ref(victim), "uid", victim.UID, "for", pod.Ref(p))
		a.Events.Record(victim, v1.EventTypeWarning, pod.ReasonPreempting, preempted)
		a.workers.End(victim.UID, nil, pod.Cause{
			Why: "a critical pod needs its room", Reason: pod.ReasonPreempting, Message: preempted, Disruption: preempted,
		})
	}
	group.Go("make room", func(ctx context.Context) {
		for _, victim := range victims {
			select {
			case <-a.workers.Ended(victim.UID):
			case <-ctx.Done():
				return
			}
		}
		send(ctx, a.room, p.UID)
	})
}

// handleRoom asks once more for a pod that others had to make room for.
func (a *Agent) handleRoom(group *run.Group, uid pod.UID) {
	p, wanted := a.Desired.Get(uid)
	if !wanted || !a.waiting[uid] {
		return // it went while it waited
	}
	delete(a.waiting, uid)
	a.takeIn(group, p)
	a.showPods()
}
