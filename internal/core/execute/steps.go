package execute

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
)

// step is one part of a Sync, a Stop or a Cleanup. It is in the file step_NAME.go, calls no other
// step, and can be repeated: it looks at what is there first.
type step struct {
	name string
	do   func(*Executor, context.Context, *task) error
	// progress is what the status of a pod that is stopped says from this step on. Empty: as before.
	progress string
}

var (
	// syncSteps bring a pod closer to its spec.
	syncSteps = []step{
		{name: "wait for the network", do: waitForNetwork},
		{name: "make directories", do: makeDirs},
		{name: "make the cgroup", do: makeCgroup},
		{name: "stop what must go before volumes are replaced", do: stopForEditedVolumes},
		{name: "set up volumes", do: setUpVolumes},
		{name: "stop what must go", do: stopUnwanted},
		{name: "start what is missing", do: startMissing},
		{name: "remove what is dead", do: removeDead},
	}

	// stopSteps end a pod of which something runs. The next Stop sees what came of it.
	stopSteps = []step{
		{name: "stop containers", do: stopContainers, progress: "stopping containers"},
		{name: "stop sandboxes", do: stopSandboxes, progress: "stopping the sandbox"},
	}

	// releaseSteps give back what a pod holds of which nothing runs. A sandbox that died by itself
	// still holds its address.
	releaseSteps = []step{
		{name: "stop sandboxes", do: stopSandboxes},
		{name: "unmount volumes", do: unmountVolumes, progress: "unmounting volumes"},
		{name: "unregister objects", do: unregisterObjects},
		{name: "remove the cgroup", do: removeCgroup, progress: "removing the cgroup"},
		{name: "report the stop", do: reportStop},
	}

	// cleanupSteps remove what is left of a pod that is stopped.
	cleanupSteps = []step{
		{name: "remove containers", do: removeContainers, progress: "removing what is left"},
		{name: "stop sandboxes", do: stopSandboxes},
		{name: "remove sandboxes", do: removeSandboxes},
		{name: "unmount volumes", do: unmountVolumes},
		{name: "remove the cgroup", do: removeCgroup},
		{name: "remove directories", do: removeDirs},
		{name: "forget the pod", do: forgetPod},
	}
)

// task is one Sync, Stop or Cleanup of one pod, handed from step to step.
type task struct {
	pod    *v1.Pod
	have   pod.Observed
	memory *memory

	// Of a Stop:

	deadline time.Time // of all containers together

	// Of a Sync:

	plan           plan.Plan
	changedRuntime bool      // a sandbox or container was changed: another sync follows at once
	stopsDone      bool      // the stops of the plan were carried out
	releaseSlot    func()    // gives the start slot back; may be called again
	due            time.Time // when to sync again; zero: when something happens
	failed         []error   // of single containers; the others go on
	newSandbox     bool      // the sandbox was made in this sync, and is not in have
	podIPs         []string  // of that sandbox, once they were asked for
	hostsFile      string    // path of the pod's hosts file, once it is written for that sandbox
}

// syncAgainAt asks for another sync at that time, if none is due before.
func (t *task) syncAgainAt(at time.Time) {
	if !at.IsZero() && (t.due.IsZero() || at.Before(t.due)) {
		t.due = at
	}
}

// setWaiting records why a container does not run.
func (t *task) setWaiting(container, reason, message string) {
	t.memory.waiting[container] = status.WaitingReason{Reason: reason, Message: message}
}

// waitingSetter returns a function that records why one container does not run yet.
func (t *task) waitingSetter(container string) func(message string) {
	return func(message string) { t.setWaiting(container, pod.ReasonContainerCreating, message) }
}

// setAllWaiting records why none of the containers of the plan can be started.
func (t *task) setAllWaiting(message string) {
	for _, a := range t.plan.Actions {
		if start, ok := a.(plan.StartContainer); ok {
			t.setWaiting(start.Name, pod.ReasonContainerCreating, message)
		}
	}
}

// runSyncSteps performs the steps of a sync until one fails. Each is a span of the pod's trace.
func (e *Executor) runSyncSteps(ctx context.Context, t *task) error {
	for _, s := range syncSteps {
		stepCtx, end := e.Reports.Telemetry.Step(ctx, t.pod, s.name)
		err := s.do(e, stepCtx, t)
		end(err)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// runSteps performs the steps of a stop or a cleanup until one fails, and publishes how far it came.
func (e *Executor) runSteps(ctx context.Context, t *task, steps []step) error {
	for _, s := range steps {
		if s.progress != "" {
			t.memory.terminate(stepBegan{s.progress, time.Now()})
			e.publishStop(t)
		}
		if err := s.do(e, ctx, t); err != nil {
			return err
		}
	}
	return nil
}
