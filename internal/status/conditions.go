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
	sandbox := in.Have.Sandbox()
	sandboxReady := sandbox != nil && sandbox.State == pod.SandboxReady
	ended := s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed

	seen := s.StartTime.Time
	network := seen
	if sandbox != nil {
		network = sandbox.CreatedAt
	}
	var unready []string
	ready := network
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		if !c.Ready {
			unready = append(unready, c.Name)
		} else if c.State.Running != nil && c.State.Running.StartedAt.After(ready) {
			ready = c.State.Running.StartedAt.Time
		}
	}
	why := v1.PodCondition{Reason: "ContainersNotReady", Message: fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))}
	if s.Phase == v1.PodSucceeded {
		why = v1.PodCondition{Reason: "PodCompleted"}
	}
	isReady := len(unready) == 0 && !ended

	return []v1.PodCondition{
		condition(in, v1.PodReadyToStartContainers, sandboxReady, network, v1.PodCondition{}),
		condition(in, v1.PodInitialized, true, seen, v1.PodCondition{}),
		condition(in, v1.PodReady, isReady, ready, why),
		condition(in, v1.ContainersReady, isReady, ready, why),
		condition(in, v1.PodScheduled, true, seen, v1.PodCondition{}),
	}
}

// condition keeps the transition time of a condition that did not change. One
// that is new gets the time at which the fact came true, if that is known: so
// an agent that was restarted says the same as the one before it.
func condition(in Input, kind v1.PodConditionType, is bool, since time.Time, ifNot v1.PodCondition) v1.PodCondition {
	out := v1.PodCondition{Type: kind, Status: v1.ConditionTrue, ObservedGeneration: in.Pod.Generation}
	if !is {
		out.Status, out.Reason, out.Message = v1.ConditionFalse, ifNot.Reason, ifNot.Message
		since = in.Now
	}
	out.LastTransitionTime = metav1.NewTime(since.Truncate(time.Second))
	if in.Before == nil {
		return out
	}
	for _, before := range in.Before.Conditions {
		if before.Type != kind {
			continue
		}
		if before.Status == out.Status {
			out.LastTransitionTime = before.LastTransitionTime
		} else {
			out.LastTransitionTime = metav1.NewTime(in.Now.Truncate(time.Second))
		}
	}
	return out
}
