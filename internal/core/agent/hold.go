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

// reasonNodeShutdown is the reason in the status of a static pod that waits for Resume. Pods of an
// API server are rejected for the same reason.
const reasonNodeShutdown = "NodeShutdown"

// holdRequest is a call of Hold, or of Resume if cause is nil.
type holdRequest struct {
	cause *pod.Cause
	done  chan struct{}
}

// Hold lets no pod start from its return on. New pods of an API server are rejected, static pods
// wait, and the caller ends those that run. It may be called again, with another cause.
func (a *Agent) Hold(ctx context.Context, cause pod.Cause) error { return a.requestHold(ctx, &cause) }

// Resume undoes Hold. Static pods that waited are admitted, and those that a passing cause ended
// are revived.
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

// holdBackQueued removes the pods from the workers that have not started: they wait for the end of
// a pod of the same name, or of their own life before.
func (a *Agent) holdBackQueued() {
	lives := a.workers.Lives()
	for _, p := range a.Desired.Pods() {
		l, alive := lives[p.UID]
		if !a.states.admission(p.UID).hasRoom() || alive && !l.Removed {
			continue
		}
		a.workers.Remove(p)
		a.states.apply(p.UID, hold)
		if !alive { // else its worker publishes the status
			a.publishHeldBack(p)
		}
	}
}

// holdBack makes a new static pod wait while the node is drained, and returns true. A pod that
// runs already, and whose source was read late, is ended as the others were.
func (a *Agent) holdBack(p *v1.Pod) bool {
	switch {
	case a.hold == nil || p.DeletionTimestamp != nil || pod.HasEnded(p):
		return false
	case a.heldAtStart[p.UID] != nil:
		a.states.apply(p.UID, admitPod)
		a.workers.Desire(p)
		a.workers.End(p.UID, nil, *a.hold)
	case pod.IsStatic(p):
		a.states.apply(p.UID, hold)
		a.publishHeldBack(p)
	default:
		return false // admission rejects a pod of an API server
	}
	return true
}

// publishHeldBack sets the status of a pod that waits for Resume.
func (a *Agent) publishHeldBack(p *v1.Pod) {
	s := v1.PodStatus{
		Phase: v1.PodPending, Reason: reasonNodeShutdown,
		Message: "It starts when the node takes pods again: " + a.hold.Description, ObservedGeneration: p.Generation,
	}
	a.Statuses.Set(p.UID, s)
	a.Upstream.Publish(p, s)
}

// resume revives the pods that ran before, and then decides on those that wait, so that
// admission counts the revived ones.
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

// revive begins a new life of a pod that a passing cause ended. Its AnnotationSeen is the present
// time, and the ephemeral containers of the life before are dropped.
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
