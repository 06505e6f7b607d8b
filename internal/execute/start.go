package execute

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/image"
	"berth/internal/plan"
	"berth/internal/pod"
	"berth/internal/render"
	"berth/internal/status"
)

// startMissing makes the sandbox and starts the containers that the plan asks
// for. Images are asked for first, so that they are pulled while the pod waits
// for its slot; a container whose image is not there yet is left for later.
func startMissing(e *Executor, ctx context.Context, t *task) error {
	images := e.askForImages(ctx, t)
	if t.plan.FirstStart() && anythingToStart(t.plan, images) {
		release, err := e.Slots.Take(ctx, t.pod)
		if err != nil {
			return fmt.Errorf("wait for a start slot: %w", err)
		}
		defer release()
	}
	// Once begun, a call to the runtime is not broken off: a half-made sandbox is
	// more trouble than one that is stopped a moment later.
	unbroken := context.WithoutCancel(ctx)

	in := sandboxOf(t)
	for _, a := range t.plan.Actions {
		if err := ctx.Err(); err != nil {
			return err // the pod is to be stopped, or the agent: nothing more is begun
		}
		switch a := a.(type) {
		case plan.CreateSandbox:
			id, err := e.createSandbox(unbroken, t, a)
			if err != nil {
				return err
			}
			in = sandbox{id: id, attempt: a}
		case plan.StartContainer:
			if images[a.Name].Ref == "" {
				continue
			}
			if err := e.startContainer(unbroken, t, a, in, images[a.Name].Ref); err != nil {
				t.failed = append(t.failed, err)
			}
		}
	}
	return nil
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
		state := e.Images.Ensure(ctx, t.pod.UID, containerOf(t.pod, start.Name))
		out[start.Name] = state
		if state.Ref == "" {
			t.notes[start.Name] = status.Note{Reason: state.Reason, Message: state.Message}
			t.comeBack(state.Until)
		}
	}
	return out
}

func anythingToStart(p plan.Plan, images map[string]image.State) bool {
	for _, a := range p.Actions {
		if _, ok := a.(plan.CreateSandbox); ok {
			return true
		}
	}
	for _, state := range images {
		if state.Ref != "" {
			return true
		}
	}
	return false
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

func (e *Executor) createSandbox(ctx context.Context, t *task, a plan.CreateSandbox) (string, error) {
	t.did = true
	began := time.Now()
	id, err := e.Runtime.RunSandbox(ctx, render.Sandbox(t.pod, a, e.Node))
	if err != nil {
		t.allWait(e.Explain(err))
		return "", fmt.Errorf("create sandbox: %w", err)
	}
	e.Log.Info("sandbox made", "pod", pod.Ref(t.pod), "sandbox", id, "attempt", a.Attempt, "took", time.Since(began).Round(time.Millisecond))
	return id, nil
}

// startContainer makes a container and starts it.
func (e *Executor) startContainer(ctx context.Context, t *task, a plan.StartContainer, in sandbox, imageRef string) error {
	t.did = true
	began := time.Now()
	spec := containerOf(t.pod, a.Name)
	id, err := e.Runtime.CreateContainer(ctx, in.id,
		render.Container(t.pod, spec, a, imageRef, e.Node),
		render.Sandbox(t.pod, in.attempt, e.Node))
	if err != nil {
		t.notes[a.Name] = status.Note{Reason: pod.ReasonCreateContainerError, Message: e.Explain(err)}
		return fmt.Errorf("container %s: %w", a.Name, err)
	}
	if err := e.Runtime.StartContainer(ctx, id); err != nil {
		t.notes[a.Name] = status.Note{Reason: pod.ReasonRunContainerError, Message: e.Explain(err)}
		return fmt.Errorf("container %s: %w", a.Name, err)
	}
	delete(t.notes, a.Name)
	e.Log.Info("container started", "pod", pod.Ref(t.pod), "container", a.Name, "id", id, "restarts", a.RestartCount,
		"took", time.Since(began).Round(time.Millisecond))
	return nil
}

// containerOf returns the spec of a container that the plan named, so it is there.
func containerOf(p *v1.Pod, name string) *v1.Container {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return &p.Spec.Containers[i]
		}
	}
	panic("execute: the plan names container " + name + ", which the pod does not have")
}
