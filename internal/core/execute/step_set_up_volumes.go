package execute

import (
	"slices"

	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/pods/volume"
	"berth/internal/telemetry/event"
	"berth/internal/telemetry/waterfall"
)

// setUpVolumes makes the volumes of a pod be there, with what they should hold now.
// One that can't be renewed, and is there with what it held before, holds nobody up; one
// that is not there holds up those who use it.
func setUpVolumes(e *Executor, ctx context.Context, t *task) error {
	end := e.Reports.Telemetry.Phase(t.pod, waterfall.Volumes, "")
	due, err := e.Volumes.Setup(ctx, t.pod, nil)
	end(err)
	t.syncAgainAt(due)
	if err == nil || ctx.Err() != nil { // nobody waits for it any more
		return err
	}
	e.Reports.Events.Record(t.pod, v1.EventTypeWarning, event.FailedMount, "MountVolume.SetUp failed for "+err.Error())
	var failed volume.Errors
	if !errors.As(err, &failed) || !t.postponeContainers(failed) {
		t.setAllWaiting(err.Error())
		return err
	}
	t.failed = append(t.failed, err)
	return nil
}

// postponeContainers takes out of the plan what concerns containers that can't be started for lack
// of a volume, and tells whether the rest of it may be done. They stay as they are: what
// runs is not stopped for a successor that has to wait. Nor is a whole pod that runs: its
// sandbox is not replaced until all of its volumes are there.
func (t *task) postponeContainers(failed volume.Errors) bool {
	held, others, replaced := map[string]bool{}, false, false
	for _, a := range t.plan.Actions {
		switch a := a.(type) {
		case plan.StopSandbox:
			replaced = true
		case plan.StartContainer:
			lacking := failed.Lacking(pod.ContainerSpec(t.pod, a.Name))
			if len(lacking) == 0 {
				others = true
				continue
			}
			held[a.Name] = true
			t.setWaiting(a.Name, pod.ReasonContainerCreating, lacking.Error())
		}
	}
	if len(held) == 0 {
		return true
	}
	if replaced && t.have.Running() {
		return false
	}
	t.plan.Actions = slices.DeleteFunc(t.plan.Actions, func(a plan.Action) bool {
		switch a := a.(type) {
		case plan.StopContainer:
			return held[a.Name]
		case plan.StartContainer:
			return held[a.Name]
		case plan.StopSandbox, plan.CreateSandbox:
			return !others // a sandbox is made for somebody
		default:
			return false
		}
	})
	return true
}
