package execute

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
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
