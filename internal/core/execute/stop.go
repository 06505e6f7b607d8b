package execute

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// Stop ends all that runs of a pod: its containers in their order, within grace
// in all, then its sandboxes. It is done when the observation that it is given
// shows nothing alive, and what the pod held was given back.
func (e *Executor) Stop(ctx context.Context, p *v1.Pod, have pod.Observed, grace time.Duration, cause pod.Cause) (bool, error) {
	e.Images.Release(p.UID)
	e.Probes.Stop(p.UID)
	e.Probes.Watch(p, have) // readiness is probed for as long as a container runs
	m := e.memories.get(p.UID)
	m.waiting = map[string]status.WaitingReason{}
	m.postStarts = nil // a stop does not wait for them
	t := &task{pod: p, have: have, memory: m}
	e.rememberCause(t, cause)
	e.recordPreviousLife(t, cause)
	if !have.Running() {
		return true, e.runSteps(ctx, t, releaseSteps)
	}
	e.Log.Info("stopping pod", "pod", pod.Ref(p), "uid", p.UID, "reason", cause.Description, "grace", grace.Round(time.Millisecond))
	t.deadline = time.Now().Add(grace)
	err := e.runSteps(ctx, t, stopSteps)
	if err != nil && ctx.Err() == nil {
		e.Reports.Events.Record(p, v1.EventTypeWarning, event.FailedKillPod, "error killing pod: "+e.explain(err))
	}
	return false, err
}

// rememberCause remembers why the agent ends a pod, for its status. The status of a pod whose
// containers have ended for good by themselves says how they ended.
func (e *Executor) rememberCause(t *task, cause pod.Cause) {
	if cause.Reason == "" || t.memory.termination.reason != nil || e.finished(t) {
		return
	}
	t.memory.terminate(terminationDecided{status.Termination{Reason: cause.Reason, Message: cause.Message, Disruption: cause.Disruption}})
}

// finished reports whether the containers of a pod have ended for good by themselves.
func (e *Executor) finished(t *task) bool {
	return plan.Next(t.pod, t.have, e.Backoff, time.Now()).Finished
}

// publishStop publishes the status of a pod that is being stopped.
func (e *Executor) publishStop(t *task) {
	e.publish(status.Input{Pod: t.pod, Observed: t.have, Finished: e.finished(t)})
}
