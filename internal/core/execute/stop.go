package execute

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
)

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
