package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// conditions derives the conditions of a pod, in the order in which they come
// true. Conditions that others set on the pod follow unchanged.
func (v *view) conditions(s *v1.PodStatus) []v1.PodCondition {
	network := v.hasNetwork(s)
	containers := v.containersReady(s, network)
	out := []v1.PodCondition{
		v.condition(v1.PodReadyToStartContainers, network),
		v.condition(v1.PodInitialized, v.initialized(s)),
		v.condition(v1.PodReady, v.ready(s, containers)),
		v.condition(v1.ContainersReady, containers),
		v.condition(v1.PodScheduled, conditionState{holds: true, since: s.StartTime.Time}),
	}
	if v.RestartingAll {
		out = append(out, v.condition(v1.AllContainersRestarting, conditionState{holds: true}))
	}
	if v.isDisruption() {
		out = append(out, v.condition(v1.DisruptionTarget, conditionState{
			holds: true, reason: v1.PodReasonTerminationByKubelet, message: v.Termination.Disruption,
		}))
	}
	return v.appendOthers(out)
}

// isDisruption reports whether the agent sets the condition DisruptionTarget. If another component
// has set it before, that one stays.
func (v *view) isDisruption() bool {
	othersDo := func(s *v1.PodStatus) bool {
		c := conditionOf(s, v1.DisruptionTarget)
		return c != nil && c.Status == v1.ConditionTrue && c.Reason != v1.PodReasonTerminationByKubelet
	}
	endedWell := v.Previous != nil && v.Previous.Phase == v1.PodSucceeded
	return v.Termination != nil && v.Termination.Disruption != "" && !endedWell && !othersDo(&v.Pod.Status) && !othersDo(v.Previous)
}

// appendOthers adds the conditions that other components set: readiness gates, and DisruptionTarget
// unless the agent set it itself.
func (v *view) appendOthers(out []v1.PodCondition) []v1.PodCondition {
	add := func(c v1.PodCondition) {
		known := func(o v1.PodCondition) bool { return o.Type == c.Type }
		if c.Type != v1.AllContainersRestarting && !slices.ContainsFunc(out, known) {
			out = append(out, c)
		}
	}
	for _, c := range v.Pod.Status.Conditions {
		add(c)
	}
	if v.Previous != nil {
		for _, c := range v.Previous.Conditions {
			// A condition that was removed from a pod of the API server does not come back.
			if c.Type == v1.DisruptionTarget || pod.Source(v.Pod) != pod.SourceAPI {
				add(c)
			}
		}
	}
	return out
}

// conditionState is the derived state of a condition.
type conditionState struct {
	holds           bool
	since           time.Time // zero: not known
	reason, message string
}

func (v *view) hasNetwork(s *v1.PodStatus) conditionState {
	sandbox := v.Observed.Sandbox()
	if sandbox == nil {
		return conditionState{since: s.StartTime.Time}
	}
	if sandbox.State == pod.SandboxReady {
		return conditionState{holds: true, since: sandbox.CreatedAt}
	}
	// The runtime doesn't say when a sandbox died. Its last container ended with it or before.
	var lastEnd time.Time
	for i := range v.Observed.Containers {
		if c := &v.Observed.Containers[i]; c.SandboxID == sandbox.ID && c.FinishedAt.After(lastEnd) {
			lastEnd = c.FinishedAt
		}
	}
	return conditionState{since: lastEnd}
}

// condition keeps the transition time of a condition that did not change. A condition
// that did, or is new, gets the time since when its state holds, if that is
// known: a restarted agent then says the same as before.
func (v *view) condition(which v1.PodConditionType, f conditionState) v1.PodCondition {
	out := v1.PodCondition{
		Type: which, Status: v1.ConditionFalse, Reason: f.reason, Message: f.message, ObservedGeneration: v.Pod.Generation,
	}
	if f.holds {
		out.Status = v1.ConditionTrue
	}
	at := f.since.Truncate(time.Second)
	if f.since.IsZero() {
		at = v.Now.Truncate(time.Second)
	}
	if before := conditionOf(v.Previous, which); before != nil {
		switch {
		case before.Status == out.Status:
			at = before.LastTransitionTime.Time
		case at.Before(before.LastTransitionTime.Time): // it was otherwise after that
			at = v.Now.Truncate(time.Second)
		}
	}
	out.LastTransitionTime = metav1.NewTime(at)
	return out
}

// conditionOf returns the condition of that type, or nil.
func conditionOf(s *v1.PodStatus, which v1.PodConditionType) *v1.PodCondition {
	if s == nil {
		return nil
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == which {
			return &s.Conditions[i]
		}
	}
	return nil
}
