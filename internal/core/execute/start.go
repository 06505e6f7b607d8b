package execute

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/runtime/image"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/event"
	"berth/internal/telemetry/waterfall"
)

// startMissing makes the sandbox and starts the containers that the plan asks for, then
// runs the hooks of those that have one, and of those started earlier whose hooks did not
// end. Images are asked for first, so that they are pulled while the pod waits for its slot;
// a container whose image, or something else that it needs, is not there yet is left for
// later. While a pod has a slot it waits for nobody but the runtime, and for that not for
// long; it is given back before any hook.
func startMissing(e *Executor, ctx context.Context, t *task) error {
	images := e.askForImages(ctx, t)
	handler, err := e.handlerFor(ctx, t)
	if err != nil {
		return err
	}
	started, err := e.makeStartCalls(ctx, t, handler, e.findNeeds(ctx, t, images))
	e.runPostStarts(ctx, t, append(t.startedBefore(), started...))
	return err
}

// handlerFor returns by which handler the sandbox is to be made, if one is.
func (e *Executor) handlerFor(ctx context.Context, t *task) (string, error) {
	if !makesSandbox(t.plan) {
		return "", nil
	}
	handler, err := e.handlerOf(ctx, t.pod)
	if err != nil && ctx.Err() == nil {
		err = e.sandboxFailed(t, err)
	}
	return handler, err
}

// started is a container that was just started.
type started struct {
	spec *v1.Container
	id   string
}

func (e *Executor) makeStartCalls(ctx context.Context, t *task, handler string, found map[string]*needs) ([]started, error) {
	if t.plan.FirstStart() && (makesSandbox(t.plan) || len(found) > 0) {
		end := e.Telemetry.Phase(t.pod, waterfall.Queue, "")
		release, err := e.Slots.Acquire(ctx, t.pod)
		end(err)
		if err != nil {
			return nil, fmt.Errorf("wait for a start slot: %w", err)
		}
		t.release = release
		defer release()
	}
	// Once begun, a call to the runtime is not broken off: a half-made sandbox is
	// more trouble than one that is stopped a moment later.
	unbroken := context.WithoutCancel(ctx)

	in := sandboxOf(t)
	var out []started
	for _, a := range t.plan.Actions {
		if err := ctx.Err(); err != nil {
			return out, err // the pod is to be stopped, or the agent: nothing more is begun
		}
		switch a := a.(type) {
		case plan.CreateSandbox:
			id, err := e.createSandbox(unbroken, t, a, handler)
			if err != nil {
				return out, err
			}
			in = sandbox{id: id, attempt: a}
		case plan.StartContainer:
			if found[a.Name] == nil {
				continue
			}
			id, err := e.startContainer(unbroken, t, a, in, found[a.Name])
			if err != nil {
				t.failed = append(t.failed, fmt.Errorf("container %s: %w", a.Name, err))
				continue
			}
			out = append(out, started{pod.ContainerSpec(t.pod, a.Name), id})
		}
	}
	return out, nil
}

// askForImages returns, by container, how things stand with the images of those
// that are to be started.
func (e *Executor) askForImages(ctx context.Context, t *task) map[string]image.State {
	out := map[string]image.State{}
	for _, a := range t.plan.Actions {
		start, ok := a.(plan.StartContainer)
		if !ok {
			continue
		}
		spec := pod.ContainerSpec(t.pod, start.Name)
		end := e.Telemetry.Phase(t.pod, waterfall.Pull, start.Name)
		state := e.Images.Ensure(ctx, t.pod, spec)
		out[start.Name] = state
		e.tellOfImage(t, spec, state)
		if state.Ref == "" {
			t.note(start.Name, state.Reason, state.Message)
			t.comeBack(state.Until)
			continue
		}
		end(nil)
	}
	return out
}

// sandbox is the one that containers are started in.
type sandbox struct {
	id      string
	attempt plan.CreateSandbox
}

// sandboxOf returns the sandbox that the pod already has.
func sandboxOf(t *task) sandbox {
	s := t.have.Sandbox()
	if s == nil {
		return sandbox{}
	}
	return sandbox{id: s.ID, attempt: plan.CreateSandbox{Attempt: s.Attempt, Hash: s.Hash, FirstSeen: s.FirstSeen}}
}

func (e *Executor) createSandbox(ctx context.Context, t *task, a plan.CreateSandbox, handler string) (string, error) {
	t.did = true
	began := time.Now()
	end := e.Telemetry.Phase(t.pod, waterfall.Sandbox, handler)
	id, err := e.runSandbox(ctx, t, a, handler)
	end(err)
	if err != nil {
		return "", e.sandboxFailed(t, err)
	}
	e.Log.Info("sandbox made", "pod", pod.Ref(t.pod), "sandbox", id, "attempt", a.Attempt, "took", time.Since(began).Round(time.Millisecond))
	return id, nil
}

func (e *Executor) sandboxFailed(t *task, err error) error {
	t.allWait(e.words(err))
	e.Events.Record(t.pod, v1.EventTypeWarning, event.FailedCreatePodSandBox, "Failed to create pod sandbox: "+e.words(err))
	return fmt.Errorf("create sandbox: %w", err)
}

// startContainer makes a container and starts it.
func (e *Executor) startContainer(ctx context.Context, t *task, a plan.StartContainer, in sandbox, with *needs) (string, error) {
	t.did = true
	began := time.Now()
	end := e.Telemetry.Phase(t.pod, waterfall.Create, a.Name)
	id, err := e.createContainer(ctx, t, a, in, with)
	end(err)
	if err != nil {
		return "", err
	}
	e.expectPostStart(t, a.Name, id)
	end = e.Telemetry.Phase(t.pod, waterfall.Start, a.Name)
	err = e.call(t, "start the container", t.waits(a.Name), func() error { return e.Runtime.StartContainer(ctx, id) })
	end(err)
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonRunContainerError, err)
	}
	delete(t.memory.notes, a.Name)
	e.Events.RecordContainer(t.pod, a.Name, v1.EventTypeNormal, event.Started, "Started container "+a.Name)
	e.Log.Info("container started", "pod", pod.Ref(t.pod), "container", a.Name, "id", id, "restarts", a.RestartCount,
		"took", time.Since(began).Round(time.Millisecond))
	if err := e.linkLog(t.pod, pod.ContainerSpec(t.pod, a.Name), id, a.Attempt); err != nil {
		e.Log.Warn("can't link the log of a container", "pod", pod.Ref(t.pod), "container", a.Name, "err", err)
	}
	return id, nil
}

// createContainer makes a container of all that its spec asks for.
func (e *Executor) createContainer(ctx context.Context, t *task, a plan.StartContainer, in sandbox, with *needs) (string, error) {
	spec := pod.ContainerSpec(t.pod, a.Name)
	resolved, err := e.resolve(ctx, t, spec, with)
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonCreateConfigError, err)
	}
	if resolved.LastWords, err = e.prepareLastWords(t, spec, a.Attempt); err != nil {
		t.note(a.Name, pod.ReasonCreateContainerError, err.Error())
		return "", err
	}
	if target := t.have.Container(pod.EphemeralTarget(t.pod, a.Name)); target != nil {
		resolved.TargetID = target.ID
	}
	config, err := render.Container(e.inGroups(t.pod), spec, a, resolved, e.Node)
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonCreateConfigError, err)
	}
	around, err := render.Sandbox(e.inGroups(t.pod), in.attempt, resolved.IDs, e.Node)
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonCreateConfigError, err)
	}
	var id string
	err = e.call(t, "create the container", t.waits(a.Name), func() (err error) {
		id, err = e.Runtime.CreateContainer(ctx, in.id, config, around)
		return err
	})
	if err != nil {
		return "", e.startFailed(t, a.Name, pod.ReasonCreateContainerError, err)
	}
	e.Events.RecordContainer(t.pod, a.Name, v1.EventTypeNormal, event.Created, "Created container "+a.Name)
	return id, nil
}

func (e *Executor) startFailed(t *task, container, reason string, err error) error {
	t.note(container, reason, e.words(err))
	e.Telemetry.StartFailed(t.pod, container, reason)
	e.Events.RecordContainer(t.pod, container, v1.EventTypeWarning, event.Failed, "Error: "+e.words(err))
	return err
}
