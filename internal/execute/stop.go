package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/plan"
	"berth/internal/pod"
)

// stopUnwanted stops the sandboxes and containers that the plan wants gone
// before anything is started.
func stopUnwanted(e *Executor, ctx context.Context, t *task) error {
	grace := time.Duration(pod.Grace(t.pod)) * time.Second
	for _, a := range t.plan.Actions {
		var err error
		switch a := a.(type) {
		case plan.StopSandbox:
			e.Log.Info("stopping sandbox", "pod", pod.Ref(t.pod), "sandbox", a.ID, "why", a.Why)
			err = e.stopSandbox(ctx, t.have, a.ID, grace)
		case plan.StopContainer:
			e.Log.Info("stopping container", "pod", pod.Ref(t.pod), "container", a.Name, "id", a.ID, "why", a.Why)
			err = e.Runtime.StopContainer(ctx, a.ID, grace)
		case plan.DropContainer:
			err = e.Runtime.RemoveContainer(ctx, a.ID)
		default:
			continue
		}
		if err != nil {
			return err
		}
		t.did = true
	}
	return nil
}

// removeDead removes what nobody asks for any more.
func removeDead(e *Executor, ctx context.Context, t *task) error {
	for _, a := range t.plan.Actions {
		switch a := a.(type) {
		case plan.RemoveContainer:
			if err := e.Runtime.RemoveContainer(ctx, a.ID); err != nil {
				return err
			}
			if err := os.Remove(a.LogPath); err != nil && !errors.Is(err, os.ErrNotExist) && a.LogPath != "" {
				return fmt.Errorf("remove the log of a container that is gone: %w", err)
			}
		case plan.RemoveSandbox:
			if err := e.Runtime.RemoveSandbox(ctx, a.ID); err != nil {
				return err
			}
		default:
			continue
		}
		t.did = true
	}
	return nil
}

// Stop ends all that runs of a pod. It is done when the observation that it is
// given shows nothing alive.
func (e *Executor) Stop(ctx context.Context, p *v1.Pod, have pod.Observed, grace time.Duration, why string) (bool, error) {
	e.Images.Release(p.UID)
	e.remember(p.UID, nil)
	if !have.Running() {
		e.publish(p, have, nil, plan.Next(p, have, e.Backoff, time.Now()).Finished)
		if err := e.RemoveCgroup(ctx, e.Node.Cgroup(p.UID)); err != nil {
			return false, err
		}
		return true, nil
	}
	e.Log.Info("stopping pod", "pod", pod.Ref(p), "uid", p.UID, "why", why, "grace", grace.Round(time.Millisecond))
	if err := e.stopContainers(ctx, have.Containers, grace); err != nil {
		return false, err
	}
	for _, s := range have.Sandboxes {
		if err := e.Runtime.StopSandbox(ctx, s.ID); err != nil {
			return false, err
		}
	}
	return false, nil
}

// Erase removes all that is left of a pod: containers, sandboxes, directories.
func (e *Executor) Erase(ctx context.Context, p *v1.Pod, have pod.Observed) error {
	for _, c := range have.Containers {
		if err := e.Runtime.RemoveContainer(ctx, c.ID); err != nil {
			return err
		}
	}
	for _, s := range have.Sandboxes {
		if err := e.Runtime.StopSandbox(ctx, s.ID); err != nil { // it frees the address of a dead one, too
			return err
		}
		if err := e.Runtime.RemoveSandbox(ctx, s.ID); err != nil {
			return err
		}
	}
	if err := e.RemoveCgroup(ctx, e.Node.Cgroup(p.UID)); err != nil {
		return err
	}
	if err := e.removeDirs(p); err != nil {
		return err
	}
	e.Log.Info("pod is gone", "pod", pod.Ref(p), "uid", p.UID)
	e.Statuses.Forget(p.UID)
	e.Forget(p.UID)
	return nil
}

func (e *Executor) stopSandbox(ctx context.Context, have pod.Observed, id string, grace time.Duration) error {
	var inside []pod.Container
	for _, c := range have.Containers {
		if c.SandboxID == id {
			inside = append(inside, c)
		}
	}
	if err := e.stopContainers(ctx, inside, grace); err != nil {
		return err
	}
	return e.Runtime.StopSandbox(ctx, id)
}

// stopContainers stops those that are alive, all at the same time.
func (e *Executor) stopContainers(ctx context.Context, containers []pod.Container, grace time.Duration) error {
	errs := make([]error, len(containers))
	var wg sync.WaitGroup
	for i, c := range containers {
		if c.State == pod.ContainerRunning || c.State == pod.ContainerUnknown {
			wg.Go(func() { errs[i] = e.Runtime.StopContainer(ctx, c.ID, grace) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}
