package status

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// initialized holds since the last init container ended or the last sidecar
// started. It stays so when a sidecar is restarted later on.
func (v *view) initialized(s *v1.PodStatus) conditionState {
	var incomplete []string
	since := s.StartTime.Time
	probed := false
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		done, at := c.Ready, time.Time{}
		if pod.IsSidecar(&v.Pod.Spec.InitContainers[i]) {
			done, at = c.Started != nil && *c.Started, v.firstStart(c.Name)
			probed = probed || v.isProbed(c)
		} else if done {
			at = c.State.Terminated.FinishedAt.Time
		}
		if !done {
			incomplete = append(incomplete, c.Name)
		}
		if at.After(since) {
			since = at
		}
	}
	passed := v.reached == len(v.Pod.Spec.InitContainers)
	switch {
	case s.Phase == v1.PodSucceeded:
		return conditionState{holds: true, since: since, reason: "PodCompleted"}
	case passed:
		return conditionState{holds: true, since: since}
	case len(incomplete) > 0:
		return conditionState{
			since: v.uninitializedSince(s), reason: "ContainersNotInitialized",
			message: fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(incomplete, " ")),
		}
	case probed:
		return conditionState{holds: true} // the time of its start is not the time of the probe's success
	default:
		return conditionState{holds: true, since: since}
	}
}

// firstStart is when the oldest known container of that name in the newest
// sandbox was started.
func (v *view) firstStart(name string) (at time.Time) {
	for i := range v.Observed.Containers {
		c := &v.Observed.Containers[i]
		if s := v.Observed.Sandbox(); c.Name == name && !c.PreviousLife && (s == nil || c.SandboxID == s.ID) {
			at = c.StartedAt
		}
	}
	return at
}

// uninitializedSince is since when a pod waits for its init containers.
func (v *view) uninitializedSince(s *v1.PodStatus) time.Time {
	if len(v.Observed.Sandboxes) > 1 { // its sandbox was replaced, and init containers run again
		return v.Observed.Sandboxes[0].CreatedAt
	}
	return s.StartTime.Time
}

// isProbed reports whether a probe decides if a container is started or ready. The time of its result
// is not known.
func (v *view) isProbed(c *v1.ContainerStatus) bool {
	cur, _ := newestTwo(v.Observed, c.Name)
	return cur != nil && (cur.Health.Started != nil || cur.Health.Ready != nil)
}

// containersReady holds since the last container became ready, and fails
// since the first unready container ended. Sidecars count as well.
func (v *view) containersReady(s *v1.PodStatus, network conditionState) conditionState {
	var unready []string
	var lastStart, firstEnd time.Time
	probed := false
	if network.holds {
		lastStart = network.since
	}
	count := func(c *v1.ContainerStatus) {
		if c.Ready && c.State.Running != nil {
			if c.State.Running.StartedAt.After(lastStart) {
				lastStart = c.State.Running.StartedAt.Time
			}
			probed = probed || v.isProbed(c)
			return
		}
		unready = append(unready, c.Name)
		if end := endOf(c, s.StartTime.Time); firstEnd.IsZero() || (!end.IsZero() && end.Before(firstEnd)) {
			firstEnd = end
		}
	}
	for i := range s.InitContainerStatuses {
		if pod.IsSidecar(&v.Pod.Spec.InitContainers[i]) {
			count(&s.InitContainerStatuses[i])
		}
	}
	for i := range s.ContainerStatuses {
		count(&s.ContainerStatuses[i])
	}
	switch {
	case s.Phase == v1.PodSucceeded:
		return conditionState{since: firstEnd, reason: "PodCompleted"}
	case s.Phase == v1.PodFailed:
		return conditionState{since: firstEnd, reason: "PodFailed"}
	case len(unready) > 0:
		return conditionState{
			since: firstEnd, reason: "ContainersNotReady",
			message: fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " ")),
		}
	case probed:
		return conditionState{holds: true}
	default:
		return conditionState{holds: true, since: lastStart}
	}
}

// endOf is when a container ended, or ifNever if it never ran.
func endOf(c *v1.ContainerStatus, ifNever time.Time) time.Time {
	switch {
	case c.State.Terminated != nil:
		return c.State.Terminated.FinishedAt.Time
	case c.LastTerminationState.Terminated != nil:
		return c.LastTerminationState.Terminated.FinishedAt.Time
	default:
		return ifNever
	}
}

// ready holds when the containers are ready and the condition of every readiness gate,
// which other components set, is True.
func (v *view) ready(s *v1.PodStatus, containers conditionState) conditionState {
	if !containers.holds {
		return containers
	}
	var shut []string
	opened, closed := containers.since, time.Time{}
	for _, gate := range v.Pod.Spec.ReadinessGates {
		at := s.StartTime.Time
		c := v.gate(gate.ConditionType)
		if c != nil {
			at = c.LastTransitionTime.Time
		}
		switch {
		case c == nil:
			shut = append(shut, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != v1.ConditionTrue:
			shut = append(shut, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, c.Status))
		default:
			if !opened.IsZero() && at.After(opened) {
				opened = at
			}
			continue
		}
		if closed.IsZero() || at.Before(closed) {
			closed = at
		}
	}
	if len(shut) > 0 {
		return conditionState{since: closed, reason: "ReadinessGatesNotReady", message: strings.Join(shut, ", ")}
	}
	return conditionState{holds: true, since: opened}
}

// gate returns the condition of a readiness gate. That of the pod of the API server is
// newer than that of the previous status.
func (v *view) gate(which v1.PodConditionType) *v1.PodCondition {
	if c := conditionOf(&v.Pod.Status, which); c != nil || pod.Source(v.Pod) == pod.SourceAPI {
		return c
	}
	return conditionOf(v.Previous, which)
}
