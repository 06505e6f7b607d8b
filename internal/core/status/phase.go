package status

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// phase sums a pod up. It only ever goes on: Pending, Running, and one of the two
// ends. Sidecars and what was added for debugging have no say in it.
//
// A main container runs after the init containers, so a pod all of whose main
// containers ran is Running even while its init containers have another turn.
func (v *view) phase(containers []v1.ContainerStatus) v1.PodPhase {
	if v.wasTerminal() {
		return v.Previous.Phase // the end is the end
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
		return v1.PodRunning // it was up: from here on it only ends
	case neverRan > 0:
		return v1.PodPending
	default:
		return v1.PodRunning
	}
}

// publishedPhase is the phase that others read. A pod is not over before nothing of it runs,
// though it is certain how it will end: its end is read as leave to use its room, and to
// start the next of its kind. The conditions tell of it at once.
func (v *view) publishedPhase(s *v1.PodStatus) v1.PodPhase {
	if v.wasTerminal() || !isOver(s.Phase) || !anyRunning(s) {
		return s.Phase
	}
	goesOn := *v
	goesOn.Termination, goesOn.Finished, goesOn.Stopped = nil, false, false
	return goesOn.phase(s.ContainerStatuses)
}

// anyRunning tells whether a container of a pod runs, of whatever kind.
func anyRunning(s *v1.PodStatus) bool {
	is := func(c v1.ContainerStatus) bool { return c.State.Running != nil }
	return slices.ContainsFunc(s.InitContainerStatuses, is) || slices.ContainsFunc(s.ContainerStatuses, is) ||
		slices.ContainsFunc(s.EphemeralContainerStatuses, is)
}

// IsTerminal tells whether a pod has ended by what is said of it, and nothing of it runs.
func IsTerminal(s *v1.PodStatus) bool { return isOver(s.Phase) && !anyRunning(s) }

func isOver(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }

// initFailed tells whether an init container failed and nothing came after it. A
// failure is history once another container was made.
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

// reasonAndMessage says why the agent ended the pod, or else how far its stop has come. The
// reason for an end stays, but the step of a stop does not.
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
