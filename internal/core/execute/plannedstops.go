package execute

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// carryOutStops stops and drops what the plan wants gone before anything is started, once in a sync.
func (e *Executor) carryOutStops(ctx context.Context, t *task) error {
	if t.stopsDone {
		return nil
	}
	t.stopsDone = true
	deadline := deadlineIn(pod.Grace(t.pod))
	var unwanted []pod.Container
	var givenUp []plan.StopContainer
	for _, a := range t.plan.Actions {
		switch a := a.(type) {
		case plan.StopSandbox:
			e.Log.Info("stopping sandbox", "pod", pod.Ref(t.pod), "sandbox", a.ID, "reason", a.Reason)
			e.Reports.Events.Record(t.pod, v1.EventTypeNormal, event.SandboxChanged, "Pod sandbox changed, it will be killed and re-created.")
			t.changedRuntime = true
			if err := e.stopSandbox(ctx, t, a.ID, deadline); err != nil {
				return err
			}
		case plan.StopContainer:
			e.Log.Info("stopping container", "pod", pod.Ref(t.pod), "container", a.Name, "id", a.ID, "reason", a.Reason)
			if a.Restart {
				e.recordToRestart(t, a.ID, a.Name)
			}
			if a.Grace != nil {
				givenUp = append(givenUp, a)
				continue
			}
			unwanted = append(unwanted, containersWithID(t.have, a.ID)...)
		case plan.DropContainer:
			t.changedRuntime = true
			if err := e.Runtime.RemoveContainer(ctx, a.ID); err != nil {
				return err
			}
		}
	}
	t.changedRuntime = t.changedRuntime || len(unwanted)+len(givenUp) > 0
	var stops sync.WaitGroup
	errs := make([]error, len(givenUp))
	for i, a := range givenUp { // each has its own deadline, and none waits for another
		stops.Go(func() { errs[i] = e.stopInOrder(ctx, t, containersWithID(t.have, a.ID), deadlineIn(*a.Grace)) })
	}
	err := e.stopInOrder(ctx, t, unwanted, deadline)
	stops.Wait()
	return errors.Join(append(errs, err)...)
}

func deadlineIn(seconds int64) time.Time {
	return time.Now().Add(time.Duration(seconds) * time.Second)
}

func (e *Executor) stopSandbox(ctx context.Context, t *task, id string, deadline time.Time) error {
	inside := filterContainers(t.have, func(c pod.Container) bool { return c.SandboxID == id })
	if err := e.stopInOrder(ctx, t, inside, deadline); err != nil {
		return err
	}
	return e.Runtime.StopSandbox(ctx, id)
}
