// Package status says how a pod is doing: what users read as its phase, its
// conditions and the states of its containers.
//
// Derive is pure. The Store holds the newest status of every pod; the worker of
// a pod is the only one that writes it, and readers get values that nobody changes.
package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/pod"
)

// Note is why a container that should run does not: it waits for something, or
// could not be started. It is what the runtime can't tell.
type Note struct {
	Reason  string
	Message string
}

// Input is all that a status is derived from.
type Input struct {
	Pod      *v1.Pod
	Have     pod.Observed
	Notes    map[string]Note // by container
	Before   *v1.PodStatus   // the status until now, or nil
	HostIPs  []string
	Finished bool // the pod ended, and nothing of it will run again
	Now      time.Time
}

// Derive returns the status of a pod.
func Derive(in Input) v1.PodStatus {
	s := v1.PodStatus{QOSClass: qosClass(in.Pod), ObservedGeneration: in.Pod.Generation}
	for _, ip := range in.HostIPs {
		s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip})
	}
	if len(in.HostIPs) > 0 {
		s.HostIP = in.HostIPs[0]
	}
	s.StartTime = &metav1.Time{Time: startTime(in)}
	for _, ip := range podIPs(in) {
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip})
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
	for i := range in.Pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, containerStatus(in, &in.Pod.Spec.Containers[i]))
	}
	s.Phase = phase(in, s.ContainerStatuses)
	s.Conditions = conditions(in, &s)
	return s
}

// Failed is the status of a pod that may not run here.
func Failed(p *v1.Pod, reason, message string, now time.Time) v1.PodStatus {
	return v1.PodStatus{
		Phase:              v1.PodFailed,
		Reason:             reason,
		Message:            "Pod was rejected: " + message,
		QOSClass:           qosClass(p),
		StartTime:          &metav1.Time{Time: now},
		ObservedGeneration: p.Generation,
	}
}

// startTime is when the node first took note of the pod. It is written on the
// sandbox, where a restarted agent finds it.
func startTime(in Input) time.Time {
	if in.Before != nil && in.Before.StartTime != nil {
		return in.Before.StartTime.Time
	}
	start := in.Now
	if n := len(in.Have.Sandboxes); n > 0 && !in.Have.Sandboxes[n-1].FirstSeen.IsZero() {
		start = in.Have.Sandboxes[n-1].FirstSeen
	} else if seen := pod.FirstSeen(in.Pod); !seen.IsZero() {
		start = seen
	}
	return start.Truncate(time.Second)
}

func podIPs(in Input) []string {
	if in.Pod.Spec.HostNetwork {
		return in.HostIPs
	}
	s := in.Have.Sandbox()
	if s == nil {
		return nil
	}
	if s.State == pod.SandboxReady {
		return s.IPs
	}
	if in.Finished && in.Before != nil { // its address stays with a pod that ended
		var ips []string
		for _, ip := range in.Before.PodIPs {
			ips = append(ips, ip.IP)
		}
		return ips
	}
	return nil
}

func phase(in Input, containers []v1.ContainerStatus) v1.PodPhase {
	if in.Before != nil && (in.Before.Phase == v1.PodSucceeded || in.Before.Phase == v1.PodFailed) {
		return in.Before.Phase // the end is the end
	}
	failed, neverRan := 0, 0
	for i := range containers {
		c := &containers[i]
		switch {
		case c.State.Running != nil:
		case c.State.Terminated != nil:
			if c.State.Terminated.ExitCode != 0 {
				failed++
			}
		case c.LastTerminationState.Terminated != nil: // between two runs
		default:
			neverRan++
		}
	}
	switch {
	case in.Finished && failed > 0:
		return v1.PodFailed
	case in.Finished:
		return v1.PodSucceeded
	case in.Before != nil && in.Before.Phase == v1.PodRunning:
		return v1.PodRunning // it was up: from here on it only ends
	case neverRan > 0:
		return v1.PodPending
	default:
		return v1.PodRunning
	}
}
