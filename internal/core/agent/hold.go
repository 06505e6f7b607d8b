package agent

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// reasonNodeShutdown is why a static pod waits: the reason for which others are
// rejected.
const reasonNodeShutdown = "NodeShutdown"

// holdRequest asks the loop to hold pods back for a cause, or no longer.
type holdRequest struct {
	cause *pod.Cause
	done  chan struct{}
}

// Hold lets no pod start from its return on. Pods of an API server are rejected,
// static ones wait, and what runs is left to whoever asked. It may be called again,
// with another cause.
func (a *Agent) Hold(ctx context.Context, cause pod.Cause) error { return a.requestHold(ctx, &cause) }

// Resume ends that. Static pods that waited start, and those that were ended by a
// passing cause run again.
func (a *Agent) Resume(ctx context.Context) error { return a.requestHold(ctx, nil) }

func (a *Agent) requestHold(ctx context.Context, cause *pod.Cause) error {
	r := holdRequest{cause, make(chan struct{})}
	send(ctx, a.holds, r)
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *Agent) handleHold(group *run.Group, r holdRequest) {
	defer close(r.done)
	a.hold = r.cause
	if a.hold == nil {
		a.resume(group)
	} else {
		a.holdBackQueued()
	}
	a.updateView(a.Desired.Pods()...)
}

// holdBackQueued keeps those from starting that wait in the workers' queues: for
// the end of a pod of the same name, or of their own life before.
func (a *Agent) holdBackQueued() {
	lives := a.workers.Lives()
	for _, p := range a.Desired.Pods() {
		l, alive := lives[p.UID]
		if !a.states.admission(p.UID).hasRoom() || alive && !l.Removed {
			continue
		}
		a.workers.Remove(p)
		a.states.apply(p.UID, hold)
		if !alive { // else its worker says how it is doing
			a.publishHeldBack(p)
		}
	}
}

// holdBack tells whether a new pod does not start now, and sees to it: a static one
// waits. One that runs already, because its source is late to tell of it, ends as
// the others do.
func (a *Agent) holdBack(p *v1.Pod) bool {
	switch {
	case a.hold == nil || p.DeletionTimestamp != nil || pod.HasEnded(p):
		return false
	case a.foundAtStart[p.UID] != nil:
		a.states.apply(p.UID, admitPod)
		a.workers.Desire(p)
		a.workers.End(p.UID, nil, *a.hold)
	case pod.IsStatic(p):
		a.states.apply(p.UID, hold)
		a.publishHeldBack(p)
	default:
		return false // admission rejects it
	}
	return true
}

// publishHeldBack says that a pod waits until the node takes pods again.
func (a *Agent) publishHeldBack(p *v1.Pod) {
	s := v1.PodStatus{
		Phase: v1.PodPending, Reason: reasonNodeShutdown,
		Message: "It starts when the node takes pods again: " + a.hold.Why, ObservedGeneration: p.Generation,
	}
	a.Statuses.Set(p.UID, s)
	a.Upstream.Publish(p, s)
}

// resume lets pods run again: first those that did before, so that admission knows
// of them when it is asked for the others.
func (a *Agent) resume(group *run.Group) {
	var waiting []*v1.Pod
	lives := a.workers.Lives()
	for _, p := range a.Desired.Pods() {
		l, alive := lives[p.UID]
		switch state := a.states.admission(p.UID); {
		case state == waitingForSource: // the drain is not what it waits for
		case state.waits():
			waiting = append(waiting, p)
		case state == admitted && pod.IsStatic(p) && alive && l.Phase >= worker.Terminating && l.Cause.Passing:
			a.revive(p)
		}
	}
	for _, p := range waiting {
		a.states.apply(p.UID, reconsider) // the first of them is decided on without the others
	}
	a.handleAdditions(group, waiting)
}

// revive begins a new life of a pod that a passing cause ended. It is seen for the first
// time once more, and what was added to the life before for debugging is not for this one.
func (a *Agent) revive(p *v1.Pod) {
	a.forgetEphemeralContainers(p.UID)
	again := *p
	again.Annotations = maps.Clone(p.Annotations)
	again.Annotations[pod.AnnotationSeen] = time.Now().Format(time.RFC3339Nano)
	again.Spec.EphemeralContainers = nil
	a.Desired.Upsert(&again)
	a.workers.Desire(&again)
	a.workers.Revive(p.UID)
	a.states.apply(p.UID, revive)
}
