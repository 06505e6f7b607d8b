package execute

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/plan"
	"berth/internal/pod"
	"berth/internal/status"
)

// task is one sync of one pod, handed from step to step.
type task struct {
	pod   *v1.Pod
	have  pod.Observed
	plan  plan.Plan
	notes map[string]status.Note // why containers are not running

	did    bool      // something was changed in the runtime
	due    time.Time // when to come back
	failed []error   // of single containers, which hold nobody else back
}

// comeBack asks for another sync at that time, if none is due before.
func (t *task) comeBack(at time.Time) {
	if !at.IsZero() && (t.due.IsZero() || at.Before(t.due)) {
		t.due = at
	}
}

// allWait notes why none of the containers that are to be started can be.
func (t *task) allWait(message string) {
	for _, a := range t.plan.Actions {
		if start, ok := a.(plan.StartContainer); ok {
			t.notes[start.Name] = status.Note{Reason: pod.ReasonContainerCreating, Message: message}
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
	{"stop what must go", stopUnwanted},
	{"start what is missing", startMissing},
	{"remove what is dead", removeDead},
}

// Sync brings a pod one step closer to its spec.
func (e *Executor) Sync(ctx context.Context, p *v1.Pod, have pod.Observed) (pod.Outcome, error) {
	t := &task{pod: p, have: have, plan: plan.Next(p, have, e.Backoff, time.Now())}
	t.notes = e.remembered(p.UID, t.plan)
	e.publish(p, have, t.notes, t.plan.Finished)
	if t.plan.Finished {
		return pod.Outcome{Finished: true}, nil
	}
	t.comeBack(t.plan.Due())

	var err error
	for _, s := range syncSteps {
		if err = s.do(e, ctx, t); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			break
		}
	}
	err = errors.Join(append(t.failed, err)...)
	e.remember(p.UID, t.notes)
	if err != nil || !t.did { // else the next sync, which follows at once, knows better
		e.publish(p, have, t.notes, false)
	}
	return pod.Outcome{Again: t.did, Due: t.due}, err
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
			}
			return err
		}
	}
	return nil
}
