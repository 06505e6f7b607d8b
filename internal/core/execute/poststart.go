package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// postStart is a postStart hook that did not end yet, of a container that may run:
//
//	                    ┌── no answer ──┐
//	                    ▼               │
//	container made ──▶ due ────────────▶│──▶ succeeded: forgotten
//	                                    │
//	                                    └──▶ failed ──▶ container stopped: forgotten
//
// A runtime that does not answer leaves open whether the hook was run, so it is run again: hooks
// are run at least once, not exactly once. Until it has ended, the container is shown as waiting,
// is not probed, and containers that start after it wait. Which hooks are due is on disk before their
// containers are started: a restarted agent runs those again whose end the one before it did not see.
type postStart struct {
	failure error                // of the hook; nil: it is due
	waiting status.WaitingReason // why the container is not shown as running
}

// postStartFile holds the ids of the containers whose postStart hooks did not end.
const postStartFile = "post-start.json"

func postStartHook(p *v1.Pod, container string) *v1.LifecycleHandler {
	spec := pod.ContainerSpec(p, container)
	if spec == nil || spec.Lifecycle == nil {
		return nil
	}
	return spec.Lifecycle.PostStart
}

func hasPostStartHooks(p *v1.Pod) bool {
	has := func(c v1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PostStart != nil }
	return slices.ContainsFunc(p.Spec.Containers, has) || slices.ContainsFunc(p.Spec.InitContainers, has)
}

func duePostStart(why string) *postStart {
	return &postStart{waiting: status.WaitingReason{Reason: pod.ReasonContainerCreating, Message: why}}
}

// restorePostStarts reads which hooks were due when the agent was restarted, and forgets those of
// containers that ended. If the file can't be read, no hook is due: the containers run.
func (e *Executor) restorePostStarts(p *v1.Pod, have pod.Observed, m *memory) {
	if m.postStarts == nil {
		m.postStarts = map[string]*postStart{}
		if !hasPostStartHooks(p) {
			return
		}
		ids, err := e.readIDs(p.UID, postStartFile)
		if err != nil {
			e.Log.Warn("can't read which postStart hooks did not end: they count as run", "pod", pod.Ref(p), "uid", p.UID, "err", err)
		}
		for id := range ids {
			m.postStarts[id] = duePostStart("the postStart hook is run again: the agent was restarted before it ended")
		}
	}
	for id := range m.postStarts {
		there := slices.ContainsFunc(have.Containers, func(c pod.Container) bool {
			return c.ID == id && c.State != pod.ContainerExited && postStartHook(p, c.Name) != nil
		})
		if !there {
			delete(m.postStarts, id)
		}
	}
}

// withPostStarts marks the containers whose postStart hooks did not end.
func (m *memory) withPostStarts(have pod.Observed) pod.Observed {
	have.Containers = slices.Clone(have.Containers)
	for i := range have.Containers {
		c := &have.Containers[i]
		c.Starting = m.postStarts[c.ID] != nil && c.State == pod.ContainerRunning
	}
	return have
}

// expectPostStart records that the hook of a container is due once it runs. That is done before the
// container is started: the runtime's answer to the start may get lost.
func (e *Executor) expectPostStart(t *task, container, id string) {
	if postStartHook(t.pod, container) == nil {
		return
	}
	t.memory.postStarts[id] = duePostStart("")
	e.writePostStarts(t)
}

func (e *Executor) writePostStarts(t *task) {
	ids := map[string]bool{}
	for id := range t.memory.postStarts {
		ids[id] = true
	}
	if err := e.writeIDs(t.pod.UID, postStartFile, ids); err != nil {
		e.Log.Warn("can't write down which postStart hooks did not end: if the agent is restarted now, they are not run again, or once too often",
			"pod", pod.Ref(t.pod), "uid", t.pod.UID, "err", err)
	}
}

// startedBefore returns the containers of earlier syncs that go on running and whose postStart
// hooks did not end.
func (t *task) startedBefore() []started {
	stopped := map[string]bool{}
	for _, a := range t.plan.Actions {
		switch a := a.(type) {
		case plan.StopSandbox:
			return nil
		case plan.StopContainer:
			stopped[a.ID] = true
		}
	}
	var out []started
	for _, c := range t.have.Containers {
		if c.Starting && !stopped[c.ID] {
			out = append(out, started{pod.ContainerSpec(t.pod, c.Name), c.ID})
		}
	}
	return out
}

// runPostStarts runs the due hooks of containers that were started, all at the same
// time. A container whose hook fails is stopped; the next plan decides on its restart. The stop of
// a pod does not wait for its hooks.
//
// It reports whether further containers may be started in this sync: not while a hook did not end, and not
// after one that succeeded. The next sync shows its container as running and has it probed, and goes on.
func (e *Executor) runPostStarts(ctx context.Context, t *task, containers []started) (goOn bool) {
	containers = slices.DeleteFunc(containers, func(c started) bool { return t.memory.postStarts[c.id] == nil })
	if len(containers) == 0 {
		return true
	}
	t.releaseSlot()
	stand := make([]*postStart, len(containers)) // after this run; nil: the hook ended
	errs := make([]error, len(containers))
	var wg sync.WaitGroup
	for i, c := range containers {
		before := *t.memory.postStarts[c.id]
		wg.Go(func() { stand[i], errs[i] = e.runPostStart(ctx, t, c, before) })
	}
	wg.Wait()
	ended, goOn := false, true
	for i, c := range containers {
		goOn = goOn && stand[i] == nil && errs[i] != nil
		if stand[i] == nil {
			delete(t.memory.postStarts, c.id)
			ended = true
			continue
		}
		t.memory.postStarts[c.id] = stand[i]
		t.memory.waiting[c.spec.Name] = stand[i].waiting
		t.failed = append(t.failed, fmt.Errorf("container %s: %w", c.spec.Name, errs[i]))
	}
	if ended {
		e.writePostStarts(t)
		t.changedRuntime = true // containers that waited for the hook can be started
	}
	return goOn
}

// runPostStart runs one hook, or stops its container if it failed before. It returns the new state:
// nil if the hook succeeded, or failed and the container was stopped. The error says why the hook did not succeed.
func (e *Executor) runPostStart(ctx context.Context, t *task, c started, now postStart) (*postStart, error) {
	if now.failure == nil {
		err := e.callPostStart(ctx, t.pod, c)
		switch {
		case ctx.Err() != nil: // the pod or the agent is stopped before the end of the hook is known
			return &now, ctx.Err()
		case err == nil:
			return nil, nil
		case errors.Is(err, pod.ErrNoAnswer):
			return duePostStart("the postStart hook is run again: " + err.Error()), fmt.Errorf("run the postStart hook: %w", err)
		}
		now = postStart{failure: err, waiting: status.WaitingReason{Reason: pod.ReasonPostStartHookError, Message: err.Error()}}
		e.Reports.Events.RecordContainer(t.pod, c.spec.Name, v1.EventTypeWarning, event.FailedPostStartHook, "PostStartHook failed: "+err.Error())
		e.Log.Info("stopping container", "pod", pod.Ref(t.pod), "container", c.spec.Name, "id", c.id, "reason", "its postStart hook failed", "err", err)
	}
	deadline := deadlineIn(pod.Grace(t.pod))
	defer e.preStop(ctx, t, pod.Container{ID: c.id, Name: c.spec.Name, State: pod.ContainerRunning}, deadline)()
	if err := e.stopContainer(ctx, c.id, deadline); err != nil {
		return &now, fmt.Errorf("stop the container, whose postStart hook failed: %w", err)
	}
	return nil, now.failure
}

// callPostStart runs a hook. The sandbox may have been made in this sync: then no status has the
// address of the pod yet.
func (e *Executor) callPostStart(ctx context.Context, p *v1.Pod, c started) error {
	h := c.spec.Lifecycle.PostStart
	target := e.hookTarget(p, c.spec, c.id)
	if connects := h.HTTPGet != nil || h.TCPSocket != nil; connects && !p.Spec.HostNetwork {
		ips, err := e.readPodIPs(ctx, p.UID)
		if err != nil {
			return err
		}
		target.PodIP = ""
		if len(ips) > 0 {
			target.PodIP = ips[0]
		}
	}
	return e.Hooks.Run(ctx, target, h)
}
