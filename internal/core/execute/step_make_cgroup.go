package execute

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/event"
)

// makeCgroup makes the cgroup of a pod before anything runs in it, so that its limits
// hold from the start. A restarted agent writes them once more: its settings may have
// changed. If the cgroup vanished, whatever still runs elsewhere is stopped first, so that an agent that is
// interrupted finds the pod as it was.
func makeCgroup(e *Executor, ctx context.Context, t *task) error {
	if t.have.CgroupGone {
		if err := e.carryOutStops(ctx, t); err != nil {
			return err
		}
	}
	if t.memory.cgroupMade && !startsAnything(t.plan) {
		return nil
	}
	if err := e.Host.MakeCgroup(ctx, render.PodCgroup(t.pod, e.Node)); err != nil {
		t.setAllWaiting(err.Error())
		e.Reports.Events.Record(t.pod, v1.EventTypeWarning, event.FailedCreatePodContainer, "unable to ensure pod container exists: "+err.Error())
		return err
	}
	t.memory.cgroupMade = true
	return nil
}

func startsAnything(p plan.Plan) bool {
	for _, a := range p.Actions {
		switch a.(type) {
		case plan.CreateSandbox, plan.StartContainer:
			return true
		}
	}
	return false
}
