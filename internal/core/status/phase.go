package status

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// phase derives the phase of a pod. It only moves on: Pending, Running, then Succeeded or Failed.
// Sidecars and ephemeral containers do not count.
//
// A main container runs after the init containers, so a pod all of whose main
// containers ran is Running even while its init containers run again.
func (v *view) phase(containers []v1.ContainerStatus) v1.PodPhase {
	if v.wasTerminal() {
		return v.Previous.Phase // a terminal phase never changes
	}
	neverRan, succeeded := 0, 0
	for i := range containers {
		c := &containers[i]
		switch {
		case c.State.Running != nil:
		case c.State.Terminated != nil:
			if c.State.Terminated.ExitCode == 0 {
				succeeded++
			}
		case c.LastTerminationState.Terminated != nil: // between two runs
		default:
			neverRan++
		}
	}
	over := v.Finished || v.Stopped
	switch {
	case v.Termination != nil:
		return v1.PodFailed
	case over && succeeded == len(containers) && !v.initFailed():
		return v1.PodSucceeded
	case over:
		return v1.PodFailed
	case v.Previous != nil && v.Previous.Phase == v1.PodRunning:
		return v1.PodRunning // it does not become Pending again
	case neverRan > 0:
		return v1.PodPending
	default:
		return v1.PodRunning
	}
}

// publishedPhase is the phase in the status. A pod is not shown as Succeeded or Failed before none of its
// containers runs: readers of a terminal phase use its resources, and start its
// replacement. The conditions say at once how it will end.
func (v *view) publishedPhase(s *v1.PodStatus) v1.PodPhase {
	if v.wasTerminal() || !isOver(s.Phase) || !anyRunning(s) {
		return s.Phase
	}
	goesOn := *v
	goesOn.Termination, goesOn.Finished, goesOn.Stopped = nil, false, false
	return goesOn.phase(s.ContainerStatuses)
}

// anyRunning reports whether a container of any kind runs in a pod.
func anyRunning(s *v1.PodStatus) bool {
	is := func(c v1.ContainerStatus) bool { return c.State.Running != nil }
	return slices.ContainsFunc(s.InitContainerStatuses, is) || slices.ContainsFunc(s.ContainerStatuses, is) ||
		slices.ContainsFunc(s.EphemeralContainerStatuses, is)
}

// IsTerminal reports whether the phase of a pod is terminal and none of its containers runs.
func IsTerminal(s *v1.PodStatus) bool { return isOver(s.Phase) && !anyRunning(s) }

func isOver(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }

// initFailed reports whether an init container failed and no container was created after it.
func (v *view) initFailed() bool {
	for i := range v.Observed.Containers {
		c := &v.Observed.Containers[i]
		switch _, is := v.place(c.Name); is {
		case mainContainer:
			return false
		case initContainer:
			return c.State == pod.ContainerExited && c.ExitCode != 0
		}
	}
	return false
}

func (v *view) wasTerminal() bool {
	return v.Previous != nil && isOver(v.Previous.Phase)
}

// terminating begins the message of a pod that is being stopped.
const terminating = "Terminating since "

// reasonAndMessage are why the agent ended the pod, or else how far its stop has come. The
// reason for an end stays, the step of a stop does not.
func (v *view) reasonAndMessage() (reason, message string) {
	switch {
	case v.wasTerminal():
		reason = v.Previous.Reason
		if !strings.HasPrefix(v.Previous.Message, terminating) {
			message = v.Previous.Message
		}
	case v.Termination != nil:
		reason, message = v.Termination.Reason, v.Termination.Message
	}
	if message == "" && v.Stopping != nil {
		message = terminating + v.Stopping.Since.UTC().Format(time.RFC3339) + ": " + v.Stopping.Step
	}
	return reason, message
}
