package execute

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/handler"
	"berth/internal/telemetry/event"
)

// preStop runs the preStop hook of a container that is about to be stopped, until the
// deadline at most. The hook is run once, however often the stop is tried, and the container is
// stopped even if it fails. Only if the runtime did not answer, the next attempt to stop the
// container runs the hook again, while there is time.
func (e *Executor) preStop(ctx context.Context, t *task, c pod.Container, deadline time.Time) {
	p, m := t.pod, t.memory
	spec := pod.ContainerSpec(p, c.Name)
	if spec == nil || spec.Lifecycle == nil || spec.Lifecycle.PreStop == nil || c.State != pod.ContainerRunning {
		return
	}
	if !time.Now().Before(deadline) || !m.claimPreStop(c.ID) {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	err := e.Hooks.Run(ctx, e.hookTarget(p, spec, c.ID), spec.Lifecycle.PreStop)
	text := "PreStopHook failed: "
	if errors.Is(err, pod.ErrNoAnswer) {
		m.forgetPreStop(c.ID)
		text = "It is not known whether the PreStopHook was run: "
	}
	if err != nil {
		e.Reports.Events.RecordContainer(p, c.Name, v1.EventTypeWarning, event.FailedPreStopHook, text+err.Error())
	}
}

func (e *Executor) hookTarget(p *v1.Pod, spec *v1.Container, id string) handler.Target {
	t := handler.Target{Pod: p, Container: spec, ContainerID: id}
	if s, ok := e.Reports.Statuses.Get(p.UID); ok {
		t.PodIP = s.PodIP
	}
	return t
}
