package execute

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// task is one sync of one pod, handed from step to step.
type task struct {
	pod    *v1.Pod
	have   pod.Observed
	plan   plan.Plan
	memory *memory

	did     bool      // something was changed in the runtime
	cleared bool      // what must go was stopped
	release func()    // gives the start slot back; may be called again
	due     time.Time // when to come back
	failed  []error   // of single containers, which hold nobody else back
	remade  bool      // the sandbox was made in this sync, and is not in have
	ips     []string  // of that sandbox, once somebody asked
	hosts   string    // the file of host names, once it is written for it
}

// comeBack asks for another sync at that time, if none is due before.
func (t *task) comeBack(at time.Time) {
	if !at.IsZero() && (t.due.IsZero() || at.Before(t.due)) {
		t.due = at
	}
}

// note says why a container does not run.
func (t *task) note(container, reason, message string) {
	t.memory.notes[container] = status.WaitingReason{Reason: reason, Message: message}
}

// waits returns what notes why one container does not run yet.
func (t *task) waits(container string) func(message string) {
	return func(message string) { t.note(container, pod.ReasonContainerCreating, message) }
}

// allWait notes why none of the containers that are to be started can be.
func (t *task) allWait(message string) {
	for _, a := range t.plan.Actions {
		if start, ok := a.(plan.StartContainer); ok {
			t.note(start.Name, pod.ReasonContainerCreating, message)
		}
	}
}

// step is one thing that must be in place before the next.
type step struct {
	name string
	do   func(*Executor, context.Context, *task) error
}

// syncSteps is the road of a pod through this package, in order.
var syncSteps = []step{
	{"wait for the network", networkReady},
	{"make directories", makeDirs},
	{"make the cgroup", makeCgroup},
	{"set up volumes", setUpVolumes},
	{"stop what must go", stopUnwanted},
	{"start what is missing", startMissing},
	{"remove what is dead", removeDead},
}

// doStep does one step, and lets it be seen.
func (e *Executor) doStep(ctx context.Context, s step, t *task) error {
	ctx, end := e.Telemetry.Step(ctx, t.pod, s.name)
	err := s.do(e, ctx, t)
	end(err)
	return err
}

// Sync brings a pod one step closer to its spec.
func (e *Executor) Sync(ctx context.Context, p *v1.Pod, have pod.Observed) (pod.Outcome, error) {
	have = e.beginLife(p, have)
	m := e.memories.of(p.UID)
	e.recallPostStarts(p, have, m)
	have = m.withPostStarts(have)
	e.Objects.Register(p)
	e.Probes.Watch(p, have) // before anybody asks what they say
	have = e.withHealth(have)
	t := &task{pod: p, have: have, plan: plan.Next(p, have, e.Backoff, time.Now()), memory: m, release: func() {}}
	m.recall(t.plan, have)
	e.tellOfWaits(t)
	shown := e.publish(status.Input{Pod: p, Observed: have, Finished: t.plan.Finished, RestartingAll: t.plan.RestartingAll})
	if t.plan.Finished {
		return pod.Outcome{Finished: true, Why: "its containers ended"}, nil
	}
	if over := e.pastDeadline(t, shown); over {
		return pod.Outcome{Finished: true, Why: t.memory.ended.Message}, nil
	}
	t.comeBack(t.plan.Due())
	if t.plan.FirstStart() {
		e.Telemetry.Starting(p)
	}

	var err error
	for _, s := range syncSteps {
		if err = e.doStep(ctx, s, t); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			break
		}
	}
	err = errors.Join(append(t.failed, err)...)
	if err != nil || !t.did { // else the next sync, which follows at once, knows better
		e.show(t)
	}
	return pod.Outcome{Again: t.did, Due: t.due}, err
}

// show publishes how a sync stands.
func (e *Executor) show(t *task) {
	e.publish(status.Input{Pod: t.pod, Observed: t.have, RestartingAll: t.plan.RestartingAll})
}

// pastDeadline tells whether the pod has been active for longer than it may, and
// asks to come back when that will be so.
func (e *Executor) pastDeadline(t *task, shown v1.PodStatus) bool {
	if t.pod.Spec.ActiveDeadlineSeconds == nil || shown.StartTime == nil {
		return false
	}
	deadline := shown.StartTime.Add(time.Duration(*t.pod.Spec.ActiveDeadlineSeconds) * time.Second)
	if time.Now().Before(deadline) {
		t.comeBack(deadline)
		return false
	}
	t.memory.ended = &status.Termination{
		Reason: pod.ReasonDeadlineExceeded, Message: "Pod was active on the node longer than the specified deadline",
	}
	e.Events.Record(t.pod, v1.EventTypeNormal, event.DeadlineExceeded, t.memory.ended.Message)
	return true
}

// networkReady holds a pod back until the runtime has a network for it. Pods that
// are up already, or use the machine's network, do not care.
func networkReady(e *Executor, ctx context.Context, t *task) error {
	if t.pod.Spec.HostNetwork {
		return nil
	}
	for _, a := range t.plan.Actions {
		if _, ok := a.(plan.CreateSandbox); ok {
			err := e.Runtime.Ready(ctx)
			if err != nil {
				t.allWait(e.Explain(err))
				e.Events.Record(t.pod, v1.EventTypeWarning, event.NetworkNotReady, "network is not ready: "+e.Explain(err))
			}
			return err
		}
	}
	return nil
}
