package status

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/pod"
)

// conditions derives the conditions of a pod, in the order in which they come true.
func conditions(in Input, s *v1.PodStatus) []v1.PodCondition {
	known := fact{holds: true, since: s.StartTime.Time}
	network := hasNetwork(in.Have, s)
	ready := isReady(s, network)
	return []v1.PodCondition{
		condition(in, v1.PodReadyToStartContainers, network),
		condition(in, v1.PodInitialized, known),
		condition(in, v1.PodReady, ready),
		condition(in, v1.ContainersReady, ready),
		condition(in, v1.PodScheduled, known),
	}
}

// fact is what a condition says.
type fact struct {
	holds           bool
	since           time.Time // as far as the runtime can tell; zero: it can't
	reason, message string    // why it does not hold
}

func hasNetwork(have pod.Observed, s *v1.PodStatus) fact {
	sandbox := have.Sandbox()
	if sandbox == nil {
		return fact{since: s.StartTime.Time}
	}
	if sandbox.State == pod.SandboxReady {
		return fact{holds: true, since: sandbox.CreatedAt}
	}
	// When a sandbox died is not told. Its last container ended with it or before.
	var lastEnd time.Time
	for _, c := range have.Containers {
		if c.SandboxID == sandbox.ID && c.FinishedAt.After(lastEnd) {
			lastEnd = c.FinishedAt
		}
	}
	return fact{since: lastEnd}
}

// isReady holds since the last container became ready. It does not hold since
// the first of those that are not ready ended.
func isReady(s *v1.PodStatus, network fact) fact {
	var unready []string
	var lastStart, firstEnd time.Time
	if network.holds {
		lastStart = network.since
	}
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		if c.Ready {
			if c.State.Running != nil && c.State.Running.StartedAt.After(lastStart) {
				lastStart = c.State.Running.StartedAt.Time
			}
			continue
		}
		unready = append(unready, c.Name)
		if end := endOf(c, s.StartTime.Time); firstEnd.IsZero() || (!end.IsZero() && end.Before(firstEnd)) {
			firstEnd = end
		}
	}
	switch {
	case s.Phase == v1.PodSucceeded:
		return fact{since: firstEnd, reason: "PodCompleted"}
	case s.Phase == v1.PodFailed:
		return fact{since: firstEnd, reason: "PodFailed"}
	case len(unready) > 0:
		return fact{
			since: firstEnd, reason: "ContainersNotReady",
			message: fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " ")),
		}
	default:
		return fact{holds: true, since: lastStart}
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

// condition keeps the transition time of a condition that did not change. One
// that did, or is new, gets the time at which the fact came true, if that is
// known: so an agent that was restarted says the same as the one before it.
func condition(in Input, kind v1.PodConditionType, f fact) v1.PodCondition {
	out := v1.PodCondition{Type: kind, Status: v1.ConditionTrue, ObservedGeneration: in.Pod.Generation}
	if !f.holds {
		out.Status, out.Reason, out.Message = v1.ConditionFalse, f.reason, f.message
	}
	at := f.since.Truncate(time.Second)
	if f.since.IsZero() {
		at = in.Now.Truncate(time.Second)
	}
	if before := conditionBefore(in, kind); before != nil {
		switch {
		case before.Status == out.Status:
			at = before.LastTransitionTime.Time
		case at.Before(before.LastTransitionTime.Time): // it was otherwise after that
			at = in.Now.Truncate(time.Second)
		}
	}
	out.LastTransitionTime = metav1.NewTime(at)
	return out
}

func conditionBefore(in Input, kind v1.PodConditionType) *v1.PodCondition {
	if in.Before == nil {
		return nil
	}
	for i := range in.Before.Conditions {
		if in.Before.Conditions[i].Type == kind {
			return &in.Before.Conditions[i]
		}
	}
	return nil
}
