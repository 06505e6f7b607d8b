package execute

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/handler"
	"berth/internal/telemetry/event"
)

// preStop runs the preStop hook of a container that is about to be stopped, and waits for it until the
// deadline at most. The hook is run once, however often the stop is tried, and the container is
// stopped even if it fails. Only if the runtime did not answer, the next attempt to stop the
// container runs the hook again, while there is time.
//
// A hook that has not ended by the deadline goes on in the leastStopGrace that its container has, as with the kubelet. The caller
// calls end once the container was stopped.
func (e *Executor) preStop(ctx context.Context, t *task, c pod.Container, deadline time.Time) (end func()) {
	p, m := t.pod, t.memory
	spec := pod.ContainerSpec(p, c.Name)
	if spec == nil || spec.Lifecycle == nil || spec.Lifecycle.PreStop == nil || c.State != pod.ContainerRunning {
		return func() {}
	}
	if !time.Now().Before(deadline) || !m.claimPreStop(c.ID) {
		return func() {}
	}
	hook := e.startPreStop(ctx, p, spec, c.ID, deadline)
	err := hook.await(deadline)
	text := "PreStopHook failed: "
	if errors.Is(err, pod.ErrNoAnswer) {
		m.forgetPreStop(c.ID)
		text = "It is not known whether the PreStopHook was run: "
	}
	if err != nil {
		e.Reports.Events.RecordContainer(p, c.Name, v1.EventTypeWarning, event.FailedPreStopHook, text+err.Error())
	}
	return hook.end
}

// preStopRun is a preStop hook that runs, or has ended.
type preStopRun struct {
	container string
	cancel    context.CancelFunc
	ended     chan struct{}
	err       error // set before ended is closed
}

func (e *Executor) startPreStop(ctx context.Context, p *v1.Pod, spec *v1.Container, id string, deadline time.Time) *preStopRun {
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(leastStopGrace))
	r := &preStopRun{container: spec.Name, cancel: cancel, ended: make(chan struct{})}
	target := e.hookTarget(p, spec, id)
	go func() {
		defer close(r.ended)
		r.err = e.Hooks.Run(ctx, target, spec.Lifecycle.PreStop)
	}()
	return r
}

// await waits until the hook has ended, or for the deadline, and returns why it failed.
func (r *preStopRun) await(deadline time.Time) error {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-r.ended:
		return r.err
	case <-timer.C:
		return fmt.Errorf("container %s: the hook did not end within the grace period: %w", r.container, context.DeadlineExceeded)
	}
}

// end ends the hook, if it still runs, and waits for that.
func (r *preStopRun) end() {
	r.cancel()
	<-r.ended
}

func (e *Executor) hookTarget(p *v1.Pod, spec *v1.Container, id string) handler.Target {
	t := handler.Target{Pod: p, Container: spec, ContainerID: id}
	if s, ok := e.Reports.Statuses.Get(p.UID); ok {
		t.PodIP = s.PodIP
	}
	return t
}
