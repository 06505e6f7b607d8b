package execute

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/pods/csi"
	"berth/internal/pods/volume"
	"berth/internal/telemetry/event"
	"berth/internal/telemetry/waterfall"
)

// setUpVolumes sets up the volumes of a pod with their newest content. A volume whose content can't
// be renewed is used as it is; one that can't be made holds up the containers that use it.
func setUpVolumes(e *Executor, ctx context.Context, t *task) error {
	end := e.Reports.Telemetry.Phase(t.pod, waterfall.Volumes, "")
	due, err := e.Volumes.Setup(ctx, t.pod, nil)
	end(err)
	t.syncAgainAt(due)
	if err == nil || ctx.Err() != nil { // the sync was interrupted
		return err
	}
	var limit *csi.AttachLimitExceeded
	if errors.As(err, &limit) {
		return err // the pod fails
	}
	e.recordFailedVolumes(t.pod, err)
	var failed volume.Errors
	if !errors.As(err, &failed) || !t.postponeContainers(failed) {
		t.setAllWaiting(err.Error())
		return err
	}
	t.failed = append(t.failed, err)
	return nil
}

// recordFailedVolumes records one event for the volumes that could not be mounted, and another for block devices.
func (e *Executor) recordFailedVolumes(p *v1.Pod, err error) {
	var failed, mounts, devices volume.Errors
	if !errors.As(err, &failed) {
		e.Reports.Events.Record(p, v1.EventTypeWarning, event.FailedMount, "MountVolume.SetUp failed for "+err.Error())
		return
	}
	for _, f := range failed {
		if pod.HasDevice(p, f.Volume) {
			devices = append(devices, f)
		} else {
			mounts = append(mounts, f)
		}
	}
	if len(mounts) > 0 {
		e.Reports.Events.Record(p, v1.EventTypeWarning, event.FailedMount, "MountVolume.SetUp failed for "+mounts.Error())
	}
	if len(devices) > 0 {
		e.Reports.Events.Record(p, v1.EventTypeWarning, event.FailedMapVolume, "MapVolume.SetUp failed for "+devices.Error())
	}
}

// postponeContainers takes the actions on containers that lack a volume out of the plan, and reports
// whether the rest of the plan may be carried out. If one of them has a postStart hook, the containers
// after it wait, too. A running container is not stopped for a
// successor that has to wait; nor is the sandbox of a running pod replaced before all of its
// volumes are there.
func (t *task) postponeContainers(failed volume.Errors) bool {
	held, others, replaced := map[string]bool{}, false, false
	hooked := "" // a container that lacks a volume, and has a postStart hook
	for _, a := range t.plan.Actions {
		switch a := a.(type) {
		case plan.StopSandbox:
			replaced = true
		case plan.StartContainer:
			unusable := failed.Unusable(pod.ContainerSpec(t.pod, a.Name))
			switch {
			case len(unusable) > 0:
				held[a.Name] = true
				t.setWaiting(a.Name, pod.ReasonContainerCreating, unusable.Error())
				if hooked == "" && postStartHook(t.pod, a.Name) != nil {
					hooked = a.Name
				}
			case hooked != "":
				held[a.Name] = true
				t.setWaitingFor(a.Name, hooked)
			default:
				others = true
			}
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
			return !others // no container would use it
		default:
			return false
		}
	})
	return true
}
