package execute

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/handler"
	"berth/internal/telemetry/event"
)

// runPostStarts runs the hooks of containers that were just started, all at the
// same time. A container whose hook fails is stopped; what becomes of it then is
// for the next plan to say. A pod that is to go does not wait for its hooks.
func (e *Executor) runPostStarts(ctx context.Context, t *task, containers []started) {
	errs := make([]error, len(containers))
	var wg sync.WaitGroup
	for i, c := range containers {
		if c.spec.Lifecycle != nil && c.spec.Lifecycle.PostStart != nil {
			wg.Go(func() { errs[i] = e.postStart(ctx, t, c) })
		}
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.note(containers[i].spec.Name, pod.ReasonPostStartHookError, err.Error())
		}
	}
}

func (e *Executor) postStart(ctx context.Context, t *task, c started) error {
	err := e.runPostStart(ctx, t.pod, c)
	if ctx.Err() != nil {
		err = nil // the pod is to go: how its hooks end does not matter any more
	}
	if err == nil {
		return nil
	}
	e.Events.RecordContainer(t.pod, c.spec.Name, v1.EventTypeWarning, event.FailedPostStartHook, "PostStartHook failed: "+err.Error())
	e.Log.Info("stopping container", "pod", pod.Ref(t.pod), "container", c.spec.Name, "id", c.id, "why", "its postStart hook failed", "err", err)
	if stopErr := e.Runtime.StopContainer(ctx, c.id, time.Duration(pod.Grace(t.pod))*time.Second); stopErr != nil {
		e.Log.Warn("can't stop a container whose postStart hook failed", "pod", pod.Ref(t.pod), "container", c.spec.Name, "err", stopErr)
	}
	return err
}

// runPostStart runs one hook. The sandbox may have been made just before, so that
// no status tells the address of the pod yet.
func (e *Executor) runPostStart(ctx context.Context, p *v1.Pod, c started) error {
	h := c.spec.Lifecycle.PostStart
	target := e.target(p, c.spec, c.id)
	if connects := h.HTTPGet != nil || h.TCPSocket != nil; connects && !p.Spec.HostNetwork {
		have, err := e.Runtime.Pod(ctx, p.UID)
		if err != nil {
			return fmt.Errorf("find the address of the pod: %w", err)
		}
		target.PodIP = ""
		if s := have.Sandbox(); s != nil && len(s.IPs) > 0 {
			target.PodIP = s.IPs[0]
		}
	}
	return e.Hooks.Run(ctx, target, h)
}

// preStop runs the hook of a container that is about to be stopped, until the
// deadline at most. It is run once, however often the stop is tried: whether it
// succeeds or not, the container is stopped.
func (e *Executor) preStop(ctx context.Context, p *v1.Pod, c pod.Container, m *memory, deadline time.Time) {
	spec := pod.ContainerSpec(p, c.Name)
	if spec == nil || spec.Lifecycle == nil || spec.Lifecycle.PreStop == nil || c.State != pod.ContainerRunning || !m.firstPreStop(c.ID) {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := e.Hooks.Run(ctx, e.target(p, spec, c.ID), spec.Lifecycle.PreStop); err != nil {
		e.Events.RecordContainer(p, c.Name, v1.EventTypeWarning, event.FailedPreStopHook, "PreStopHook failed: "+err.Error())
	}
}

func (e *Executor) target(p *v1.Pod, spec *v1.Container, id string) handler.Target {
	t := handler.Target{Pod: p, Container: spec, ContainerID: id}
	if s, ok := e.Statuses.Get(p.UID); ok {
		t.PodIP = s.PodIP
	}
	return t
}
