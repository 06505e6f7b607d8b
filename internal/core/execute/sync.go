package execute

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/pods/csi"
	"berth/internal/telemetry/event"
)

// Sync brings a pod one step closer to its spec: it plans, publishes the status, and performs
// syncSteps if there is something to do.
func (e *Executor) Sync(ctx context.Context, p *v1.Pod, have pod.Observed) (pod.Outcome, error) {
	t := e.planSync(p, have)
	e.recordBackOffs(t)
	shown := e.publish(status.Input{Pod: p, Observed: t.have, Finished: t.plan.Finished, RestartingAll: t.plan.RestartingAll})
	if t.plan.Finished {
		return pod.Outcome{Finished: true, Message: "its containers ended"}, nil
	}
	if over := e.deadlineExceeded(t, shown); over {
		return pod.Outcome{Finished: true, Message: t.memory.termination.reason.Message}, nil
	}
	t.syncAgainAt(t.plan.Due())
	if t.plan.FirstStart() {
		e.Reports.Telemetry.Starting(p)
	}

	err := e.runSyncSteps(ctx, t)
	err = errors.Join(append(t.failed, err)...)
	if e.attachLimitExceeded(t, err) {
		return pod.Outcome{Finished: true, Message: t.memory.termination.reason.Message}, nil
	}
	if err != nil || !t.changedRuntime { // else the next sync follows at once, and publishes what came of this one
		e.publishSync(t)
	}
	return pod.Outcome{Again: t.changedRuntime, Due: t.due}, err
}

// planSync completes an observation with what the runtime can't tell (a previous life, postStart
// hooks that run, results of probes, containers that are to run again, a cgroup that vanished), and has package plan decide on it.
func (e *Executor) planSync(p *v1.Pod, have pod.Observed) *task {
	have = e.beginLife(p, have)
	m := e.memories.get(p.UID)
	e.restorePostStarts(p, have, m)
	have = m.withPostStarts(have)
	e.Objects.Register(p)
	e.Probes.Watch(p, have) // before their results are read
	have = e.withToRestart(p, e.withHealth(have), m)
	have.CgroupGone = have.Running() && !e.hasCgroup(p.UID)
	t := &task{pod: p, have: have, memory: m, plan: plan.Next(p, have, e.Backoff, time.Now()), releaseSlot: func() {}}
	m.refreshWaiting(t.plan, have)
	return t
}

// hasCgroup reports whether a pod has a cgroup, in any QoS class: that of a running pod may change with its manifest.
func (e *Executor) hasCgroup(uid pod.UID) bool {
	return slices.ContainsFunc(e.Node.Cgroups(uid), e.Host.CgroupExists)
}

// publishSync publishes the status of a pod in the middle or at the end of a sync.
func (e *Executor) publishSync(t *task) {
	e.publish(status.Input{Pod: t.pod, Observed: t.have, RestartingAll: t.plan.RestartingAll})
}

// attachLimitExceeded reports whether a volume of the pod can't be attached to this node, since it has too many.
// Then the pod fails, so that its controller makes another one for another node.
func (e *Executor) attachLimitExceeded(t *task, err error) bool {
	var limit *csi.AttachLimitExceeded
	if !errors.As(err, &limit) {
		return false
	}
	reason := status.Termination{Reason: pod.ReasonAttachLimitExceeded, Message: err.Error()}
	t.memory.terminate(terminationDecided{reason})
	e.Reports.Events.Record(t.pod, v1.EventTypeWarning, reason.Reason, reason.Message)
	e.Reports.Telemetry.Rejected(reason.Reason)
	return true
}

// deadlineExceeded reports whether the pod has been active for longer than activeDeadlineSeconds.
// If not yet, the next sync is due at the deadline.
func (e *Executor) deadlineExceeded(t *task, shown v1.PodStatus) bool {
	if t.pod.Spec.ActiveDeadlineSeconds == nil || shown.StartTime == nil {
		return false
	}
	deadline := shown.StartTime.Add(time.Duration(*t.pod.Spec.ActiveDeadlineSeconds) * time.Second)
	if time.Now().Before(deadline) {
		t.syncAgainAt(deadline)
		return false
	}
	reason := status.Termination{Reason: pod.ReasonDeadlineExceeded, Message: "Pod was active on the node longer than the specified deadline"}
	t.memory.terminate(terminationDecided{reason})
	e.Reports.Events.Record(t.pod, v1.EventTypeNormal, event.DeadlineExceeded, reason.Message)
	return true
}
