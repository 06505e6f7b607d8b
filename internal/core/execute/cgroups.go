package execute

import (
	"context"
	"errors"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
)

// makeCgroup makes the cgroup of a pod before anything runs in it, so that its limits
// hold from the start. A restarted agent writes them once more: its settings may be
// others now.
func makeCgroup(e *Executor, _ context.Context, t *task) error {
	if t.memory.cgroup && !startsAnything(t.plan) {
		return nil
	}
	if err := e.MakeCgroup(render.PodCgroup(t.pod, e.Node)); err != nil {
		t.allWait(err.Error())
		return err
	}
	t.memory.cgroup = true
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

// removeCgroups removes the cgroup of a pod, wherever it is: of an orphan, nobody
// knows the class.
func (e *Executor) removeCgroups(ctx context.Context, uid pod.UID) error {
	var errs []error
	for _, path := range e.Node.Cgroups(uid) {
		errs = append(errs, e.RemoveCgroup(ctx, path))
	}
	return errors.Join(errs...)
}
