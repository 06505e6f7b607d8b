package execute

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/runtime/image"
	"berth/internal/telemetry/waterfall"
)

// startMissing makes the sandbox and starts the containers that the plan asks for, each with its
// postStart hook; hooks of earlier syncs that did not end come first. Images are asked for before
// all else, so that they are pulled while the pod waits for a hook or its slot;
// a container whose image or another input is not there yet is started by a later sync. While a pod
// has a slot it waits only for the runtime, and not longer than slowCallTimeout; the slot is given
// back before any hook.
func startMissing(e *Executor, ctx context.Context, t *task) error {
	images := e.ensureImages(ctx, t)
	t.postponeByImages(images)
	if !e.runPostStarts(ctx, t, t.startedBefore()) {
		return nil
	}
	handler, err := e.sandboxHandler(ctx, t)
	if err != nil {
		return err
	}
	return e.makeStartCalls(ctx, t, handler, e.findInputs(ctx, t, images))
}

// started is a container that was just started.
type started struct {
	spec *v1.Container
	id   string
}

func (e *Executor) makeStartCalls(ctx context.Context, t *task, handler string, found map[string]*containerInputs) error {
	if t.plan.FirstStart() && (makesSandbox(t.plan) || len(found) > 0) {
		end := e.Reports.Telemetry.Phase(t.pod, waterfall.Queue, "")
		release, err := e.Slots.Acquire(ctx, t.pod)
		end(err)
		if err != nil {
			return fmt.Errorf("wait for a start slot: %w", err)
		}
		t.releaseSlot = release
		defer release()
	}
	// A call to the runtime is not interrupted: a half-made sandbox is
	// more trouble than one that is stopped a moment later.
	unbroken := context.WithoutCancel(ctx)

	in := sandboxOf(t)
	for _, a := range t.plan.Actions {
		if err := ctx.Err(); err != nil {
			return err // the pod or the agent is to be stopped: no further call is made
		}
		switch a := a.(type) {
		case plan.CreateSandbox:
			id, err := e.createSandbox(unbroken, t, a, handler)
			if err != nil {
				return err
			}
			in = sandbox{id: id, attempt: a}
		case plan.StartContainer:
			if found[a.Name] == nil {
				continue
			}
			id, err := e.startContainer(unbroken, t, a, in, found[a.Name])
			if err != nil {
				t.failed = append(t.failed, fmt.Errorf("container %s: %w", a.Name, err))
				if errors.Is(err, pod.ErrNoAnswer) && postStartHook(t.pod, a.Name) != nil {
					return nil // it may run, and then its hook comes before the next container
				}
				continue
			}
			if postStartHook(t.pod, a.Name) != nil {
				t.postponeAfter(a.Name)
			}
			if !e.runPostStarts(ctx, t, []started{{pod.ContainerSpec(t.pod, a.Name), id}}) {
				return nil
			}
		}
	}
	return nil
}

// ensureImages returns, by container, the states of the images of containers that are to be
// started.
func (e *Executor) ensureImages(ctx context.Context, t *task) map[string]image.State {
	out := map[string]image.State{}
	for _, a := range t.plan.Actions {
		start, ok := a.(plan.StartContainer)
		if !ok {
			continue
		}
		spec := pod.ContainerSpec(t.pod, start.Name)
		end := e.Reports.Telemetry.Phase(t.pod, waterfall.Pull, start.Name)
		state := e.Images.Ensure(ctx, t.pod, spec)
		out[start.Name] = state
		e.recordImageEvent(t, spec, state)
		if state.Ref == "" {
			t.setWaiting(start.Name, state.Reason, state.Message)
			t.syncAgainAt(state.Until)
			continue
		}
		end(nil)
	}
	return out
}
