package execute

import (
	"context"

	"berth/internal/core/plan"
	"berth/internal/runtime/render"
)

// makeCgroup makes the cgroup of a pod before anything runs in it, so that its limits
// hold from the start. A restarted agent writes them once more: its settings may have
// changed.
func makeCgroup(e *Executor, _ context.Context, t *task) error {
	if t.memory.cgroupMade && !startsAnything(t.plan) {
		return nil
	}
	if err := e.Host.MakeCgroup(render.PodCgroup(t.pod, e.Node)); err != nil {
		t.setAllWaiting(err.Error())
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
