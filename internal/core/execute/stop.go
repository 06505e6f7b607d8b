package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// stopUnwanted stops the sandboxes and containers that the plan wants gone
// before anything is started.
func stopUnwanted(e *Executor, ctx context.Context, t *task) error {
	if t.cleared {
		return nil
	}
	t.cleared = true
	deadline := deadlineIn(pod.Grace(t.pod))
	var unwanted []pod.Container
	var givenUp []plan.StopContainer
	for _, a := range t.plan.Actions {
		switch a := a.(type) {
		case plan.StopSandbox:
			e.Log.Info("stopping sandbox", "pod", pod.Ref(t.pod), "sandbox", a.ID, "why", a.Why)
			e.Events.Record(t.pod, v1.EventTypeNormal, event.SandboxChanged, "Pod sandbox changed, it will be killed and re-created.")
			t.did = true
			if err := e.stopSandbox(ctx, t, a.ID, deadline); err != nil {
				return err
			}
		case plan.StopContainer:
			e.Log.Info("stopping container", "pod", pod.Ref(t.pod), "container", a.Name, "id", a.ID, "why", a.Why)
			if a.Grace != nil {
				givenUp = append(givenUp, a)
				continue
			}
			unwanted = append(unwanted, withID(t.have, a.ID)...)
		case plan.DropContainer:
			t.did = true
			if err := e.Runtime.RemoveContainer(ctx, a.ID); err != nil {
				return err
			}
		}
	}
	t.did = t.did || len(unwanted)+len(givenUp) > 0
	var stops sync.WaitGroup
	errs := make([]error, len(givenUp))
	for i, a := range givenUp { // each has its own time, and none waits for another
		stops.Go(func() { errs[i] = e.stopContainers(ctx, t.pod, withID(t.have, a.ID), t.memory, deadlineIn(*a.Grace)) })
	}
	err := e.stopContainers(ctx, t.pod, unwanted, t.memory, deadline)
	stops.Wait()
	return errors.Join(append(errs, err)...)
}

func deadlineIn(seconds int64) time.Time {
	return time.Now().Add(time.Duration(seconds) * time.Second)
}

func withID(have pod.Observed, id string) []pod.Container {
	return containersOf(have, func(c pod.Container) bool { return c.ID == id })
}

// removeDead removes what nobody asks for any more.
func removeDead(e *Executor, ctx context.Context, t *task) error {
	for _, a := range t.plan.Actions {
		switch a := a.(type) {
		case plan.RemoveContainer:
			if err := e.removeContainer(ctx, t, a); err != nil {
				return err
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

func (e *Executor) removeContainer(ctx context.Context, t *task, a plan.RemoveContainer) error {
	if err := e.Runtime.RemoveContainer(ctx, a.ID); err != nil {
		return err
	}
	delete(t.memory.lastWords, a.ID)
	delete(t.memory.preStops, a.ID)
	for _, c := range withID(t.have, a.ID) {
		e.removeLastWords(t, c.Name, func(attempt int32) bool { return usesLastWords(t, c.Name, attempt, a.ID) })
		if err := e.unlinkLog(t.pod, c.Name, c.ID); err != nil {
			return err
		}
	}
	if err := os.Remove(a.LogPath); err != nil && !errors.Is(err, os.ErrNotExist) && a.LogPath != "" {
		return fmt.Errorf("remove the log of a container that is gone: %w", err)
	}
	return nil
}

// Stop ends all that runs of a pod: its containers in their order, within grace
// in all, then its sandboxes. It is done when the observation that it is given
// shows nothing alive.
func (e *Executor) Stop(ctx context.Context, p *v1.Pod, have pod.Observed, grace time.Duration, cause pod.Cause) (bool, error) {
	e.Images.Release(p.UID)
	e.Probes.Stop(p.UID)
	e.Probes.Watch(p, have) // a container is asked whether it is ready for as long as it runs
	m := e.memories.of(p.UID)
	m.notes = map[string]status.WaitingReason{}
	m.postStarts = nil // nobody waits for them any more
	e.noteCause(p, have, m, cause)
	e.notePast(p, have, m, cause)
	if !have.Running() {
		return true, e.stopped(ctx, p, have, m)
	}
	e.Log.Info("stopping pod", "pod", pod.Ref(p), "uid", p.UID, "why", cause.Why, "grace", grace.Round(time.Millisecond))
	e.showStop(p, have, m, "stopping containers")
	if err := e.stopContainers(ctx, p, have.Containers, m, time.Now().Add(grace)); err != nil {
		return false, err
	}
	e.showStop(p, have, m, "stopping the sandbox")
	return false, e.stopSandboxes(ctx, have, m)
}

// noteCause remembers why the agent ends a pod, for all to read. One whose
// containers have ended for good by themselves ends as they did.
func (e *Executor) noteCause(p *v1.Pod, have pod.Observed, m *memory, cause pod.Cause) {
	if cause.Reason == "" || m.ended != nil || plan.Next(p, have, e.Backoff, time.Now()).Finished {
		return
	}
	m.ended = &status.Termination{Reason: cause.Reason, Message: cause.Message, Disruption: cause.Disruption}
}

// stopped sees to what is left of a pod in which nothing runs any more.
func (e *Executor) stopped(ctx context.Context, p *v1.Pod, have pod.Observed, m *memory) error {
	if err := e.stopSandboxes(ctx, have, m); err != nil { // one that died by itself still holds its address
		return err
	}
	e.showStop(p, have, m, "unmounting volumes")
	if err := e.unmountVolumes(ctx, p, have, m); err != nil {
		return err
	}
	e.Objects.Unregister(p.UID)
	e.showStop(p, have, m, "removing the cgroup")
	if err := e.removeCgroups(ctx, p.UID); err != nil {
		return err
	}
	m.stopping, m.stopped = nil, true
	finished := plan.Next(p, have, e.Backoff, time.Now()).Finished
	e.publish(status.Input{Pod: p, Observed: have, Finished: finished, Stopped: true})
	if p.DeletionTimestamp != nil && !m.released {
		m.released = true
		e.Upstream.Release(p)
	}
	return nil
}

// showStop lets readers see how far the stop of a pod has come.
func (e *Executor) showStop(p *v1.Pod, have pod.Observed, m *memory, step string) {
	m.standsAt(step)
	e.publishStop(p, have)
}

func (e *Executor) publishStop(p *v1.Pod, have pod.Observed) {
	e.publish(status.Input{Pod: p, Observed: have, Finished: plan.Next(p, have, e.Backoff, time.Now()).Finished})
}

// unmountVolumes takes down the volumes of a pod. What does not go is shown for as long
// as that is so, with the time since when: somebody uses it, or a server is away.
func (e *Executor) unmountVolumes(ctx context.Context, p *v1.Pod, have pod.Observed, m *memory) error {
	err := e.Volumes.Teardown(ctx, p.UID)
	if err == nil || ctx.Err() != nil { // it is begun anew at once
		return err
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	m.heldUp(text)
	e.publishStop(p, have)
	e.Events.Record(p, v1.EventTypeWarning, event.FailedUnmount, "UnmountVolume.TearDown failed: "+text)
	return fmt.Errorf("take down its volumes: %w", err)
}

// stopSandboxes stops every sandbox once, the dead ones too: until they are
// stopped they keep their address and their ports.
func (e *Executor) stopSandboxes(ctx context.Context, have pod.Observed, m *memory) error {
	for _, s := range have.Sandboxes {
		if m.sandboxes[s.ID] && s.State == pod.SandboxNotReady {
			continue
		}
		if err := e.Runtime.StopSandbox(ctx, s.ID); err != nil {
			return err
		}
		m.sandboxes[s.ID] = true
	}
	return nil
}

// Cleanup removes all that is left of a pod: containers, sandboxes, cgroup,
// directories, links. After that, nobody knows of it.
func (e *Executor) Cleanup(ctx context.Context, p *v1.Pod, have pod.Observed) error {
	m := e.memories.of(p.UID)
	e.showStop(p, have, m, "removing what is left")
	for _, c := range have.Containers {
		if err := e.Runtime.RemoveContainer(ctx, c.ID); err != nil {
			return err
		}
		if err := e.unlinkLog(p, c.Name, c.ID); err != nil {
			return err
		}
	}
	if err := e.stopSandboxes(ctx, have, m); err != nil {
		return err
	}
	for _, s := range have.Sandboxes {
		if err := e.Runtime.RemoveSandbox(ctx, s.ID); err != nil {
			return err
		}
	}
	if err := e.unmountVolumes(ctx, p, have, m); err != nil {
		return err
	}
	if err := e.removeCgroups(ctx, p.UID); err != nil {
		return err
	}
	if err := e.removeDirs(p); err != nil {
		return err
	}
	e.UserNamespaces.Release(p.UID)
	e.Log.Info("pod is gone", "pod", pod.Ref(p), "uid", p.UID)
	e.forgetLife(p.UID)
	return nil
}

func (e *Executor) stopSandbox(ctx context.Context, t *task, id string, deadline time.Time) error {
	inside := containersOf(t.have, func(c pod.Container) bool { return c.SandboxID == id })
	if err := e.stopContainers(ctx, t.pod, inside, t.memory, deadline); err != nil {
		return err
	}
	return e.Runtime.StopSandbox(ctx, id)
}

func containersOf(have pod.Observed, is func(pod.Container) bool) []pod.Container {
	var out []pod.Container
	for _, c := range have.Containers {
		if is(c) {
			out = append(out, c)
		}
	}
	return out
}

// stopContainers stops those that are alive, wave after wave, those of a wave at
// the same time. All of it, hooks included, has one deadline: after that, what
// is left is killed.
func (e *Executor) stopContainers(ctx context.Context, p *v1.Pod, containers []pod.Container, m *memory, deadline time.Time) error {
	for _, wave := range plan.StopOrder(p, containers) {
		errs := make([]error, len(wave))
		var wg sync.WaitGroup
		for i, c := range wave {
			wg.Go(func() {
				e.Events.RecordContainer(p, c.Name, v1.EventTypeNormal, event.Killing, whyKilled(c))
				e.preStop(ctx, p, c, m, deadline)
				errs[i] = e.Runtime.StopContainer(ctx, c.ID, max(0, time.Until(deadline)))
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// whyKilled is what users read about a container that is being stopped.
func whyKilled(c pod.Container) string {
	if c.Health.Dead == "" {
		return "Stopping container " + c.Name
	}
	probe, _, _ := strings.Cut(c.Health.Dead, " ")
	return fmt.Sprintf("Container %s failed %s probe, will be restarted", c.Name, strings.ToLower(probe))
}
