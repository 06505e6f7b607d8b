package execute

import (
	"slices"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/pods/volume"
)

// holdBack takes out of the plan what concerns containers that can't be started for lack
// of a volume, and tells whether the rest of it may be done. They stay as they are: what
// runs is not stopped for a successor that has to wait. Nor is a whole pod that runs: its
// sandbox is not replaced until all of its volumes are there.
func (t *task) holdBack(failed volume.Errors) bool {
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
			t.note(a.Name, pod.ReasonContainerCreating, lacking.Error())
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
