package pods

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// summary holds the columns READY, STATUS and RESTARTS of a pod, as kubectl computes them.
type summary struct {
	ready, total int
	status       string
	restarts     int32
	lastRestart  time.Time // zero if unknown
}

// summarize computes the summary of a pod. Its status is the reason of the first container that does not run, or else
// the phase.
func summarize(p *v1.Pod) summary {
	s := summary{status: string(p.Status.Phase), total: len(p.Spec.Containers)}
	if s.status == "" {
		s.status = string(v1.PodPending)
	}
	if p.Status.Reason != "" {
		s.status = p.Status.Reason
	}
	sidecars := sidecarNames(p)
	s.total += len(sidecars)

	initializing := s.addInit(p, sidecars)
	if !initializing || hasCondition(p, v1.PodInitialized) {
		s.addMain(p, sidecars)
	}
	over := p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
	if p.DeletionTimestamp != nil && !over {
		s.status = "Terminating"
	}
	return s
}

// addInit adds the init containers up to the first that is not done, and returns whether there is one.
func (s *summary) addInit(p *v1.Pod, sidecars map[string]bool) bool {
	initializing := false
	for i, c := range p.Status.InitContainerStatuses {
		s.addRestarts(c)
		up := sidecars[c.Name] && c.Started != nil && *c.Started
		if up && c.Ready {
			s.ready++
		}
		done := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		if up || done || initializing {
			continue
		}
		initializing = true
		switch waiting := c.State.Waiting; {
		case c.State.Terminated != nil:
			s.status = "Init:" + terminationReason(c.State.Terminated)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != pod.ReasonPodInitializing:
			s.status = "Init:" + waiting.Reason
		default:
			s.status = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
	}
	return initializing
}

// addMain adds the main containers. Restarts of init containers no longer count then, those of sidecars do.
func (s *summary) addMain(p *v1.Pod, sidecars map[string]bool) {
	s.restarts, s.lastRestart = 0, time.Time{}
	for _, c := range p.Status.InitContainerStatuses {
		if sidecars[c.Name] {
			s.addRestarts(c)
		}
	}
	running := false
	// Backwards, so that the reason of the first container stays.
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := p.Status.ContainerStatuses[i]
		s.addRestarts(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.status = terminationReason(c.State.Terminated)
		case c.State.Running != nil && c.Ready:
			running = true
			s.ready++
		}
	}
	if s.status == pod.ReasonCompleted && running {
		s.status = "NotReady"
		if hasCondition(p, v1.PodReady) {
			s.status = string(v1.PodRunning)
		}
	}
}

func (s *summary) addRestarts(c v1.ContainerStatus) {
	s.restarts += c.RestartCount
	if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(s.lastRestart) {
		s.lastRestart = t.FinishedAt.Time
	}
}

// terminationReason returns the reason, the signal or the exit code of a container that ended.
func terminationReason(t *v1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", t.ExitCode)
	}
}

// sidecarNames returns the names of the init containers with restartPolicy Always.
func sidecarNames(p *v1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			names[c.Name] = true
		}
	}
	return names
}

func hasCondition(p *v1.Pod, kind v1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
