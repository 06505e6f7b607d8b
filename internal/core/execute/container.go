package execute

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/event"
	"berth/internal/telemetry/waterfall"
)

// startContainer makes a container and starts it.
func (e *Executor) startContainer(ctx context.Context, t *task, a plan.StartContainer, in sandbox, with *containerInputs) (string, error) {
	t.changedRuntime = true
	began := time.Now()
	end := e.Reports.Telemetry.Phase(t.pod, waterfall.Create, a.Name)
	id, err := e.createContainer(ctx, t, a, in, with)
	end(err)
	if err != nil {
		return "", err
	}
	e.expectPostStart(t, a.Name, id)
	end = e.Reports.Telemetry.Phase(t.pod, waterfall.Start, a.Name)
	err = e.callRuntime(t, "start the container", t.waitingSetter(a.Name), func() error { return e.Runtime.StartContainer(ctx, id) })
	end(err)
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonRunContainerError, err)
	}
	delete(t.memory.waiting, a.Name)
	e.Reports.Events.RecordContainer(t.pod, a.Name, v1.EventTypeNormal, event.Started, "Started container "+a.Name)
	e.Log.Info("container started", "pod", pod.Ref(t.pod), "container", a.Name, "id", id, "restarts", a.RestartCount,
		"took", time.Since(began).Round(time.Millisecond))
	if err := e.linkLog(t.pod, pod.ContainerSpec(t.pod, a.Name), id, a.Attempt); err != nil {
		e.Log.Warn("can't link the log of a container", "pod", pod.Ref(t.pod), "container", a.Name, "err", err)
	}
	return id, nil
}

// createContainer resolves the spec of a container and has the runtime create it.
func (e *Executor) createContainer(ctx context.Context, t *task, a plan.StartContainer, in sandbox, with *containerInputs) (string, error) {
	spec := pod.ContainerSpec(t.pod, a.Name)
	resolved, err := e.resolve(ctx, t, spec, with)
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonCreateConfigError, err)
	}
	if resolved.TerminationMessage, err = e.prepareTerminationMessage(t, spec, a.Attempt); err != nil {
		t.setWaiting(a.Name, pod.ReasonCreateContainerError, err.Error())
		return "", err
	}
	if target := t.have.Container(pod.EphemeralTarget(t.pod, a.Name)); target != nil {
		resolved.TargetID = target.ID
	}
	node := e.node()
	node.SwapLimits = e.Host.LimitsSwap() // known once there are cgroups of pods
	config, err := render.Container(e.withVolumeGroups(t.pod), spec, a, resolved, node)
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonCreateConfigError, err)
	}
	around, err := render.Sandbox(e.withVolumeGroups(t.pod), in.attempt, resolved.IDs, node)
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonCreateConfigError, err)
	}
	var id string
	err = e.callRuntime(t, "create the container", t.waitingSetter(a.Name), func() (err error) {
		id, err = e.Runtime.CreateContainer(ctx, in.id, config, around)
		return err
	})
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonCreateContainerError, err)
	}
	e.Reports.Events.RecordContainer(t.pod, a.Name, v1.EventTypeNormal, event.Created, "Created container "+a.Name)
	return id, nil
}

func (e *Executor) startFailed(t *task, container, reason string, err error) error {
	t.setWaiting(container, reason, e.explain(err))
	e.Reports.Telemetry.StartFailed(t.pod, container, reason)
	e.Reports.Events.RecordContainer(t.pod, container, v1.EventTypeWarning, event.Failed, "Error: "+e.explain(err))
	return err
}
