// Package status derives the status of a pod: its phase, its
// conditions and the states of its containers.
//
// Derive is pure. The Store holds the newest status of every pod; only the worker of
// a pod writes it, and readers get values that are never changed. The Writer sends statuses to the API server.
package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// WaitingReason is why a container that should run does not: it waits for something, or
// could not be started. The runtime doesn't know it.
type WaitingReason struct {
	Reason  string
	Message string
}

// Termination is why the agent ended a pod that would have gone on: its time was up, or
// the machine ran short, or goes down.
type Termination struct {
	Reason  string
	Message string
	// Disruption is the message of the condition DisruptionTarget. Empty: no condition.
	Disruption string
}

// TerminationStep is where the termination of a pod stands, and since when.
type TerminationStep struct {
	Step  string
	Since time.Time
}

// Input has all that a status is derived from.
type Input struct {
	Pod      *v1.Pod
	Observed pod.Observed             // with the health of its containers
	Waiting  map[string]WaitingReason // by container
	Previous *v1.PodStatus            // the status until now, or nil
	HostIPs  []string
	Runtime  string // its name, with which container ids begin; empty: containerd
	Now      time.Time

	RestartingAll bool // all containers are being restarted, as a rule of one of them asks for

	// How a pod ends. While none of these is set, it runs or will.
	Termination *Termination
	Stopping    *TerminationStep
	Finished    bool // its containers ended, and none of them will run again
	Stopped     bool // the agent stopped it, and none of its containers runs
}

// Derive returns the status of a pod.
func Derive(in Input) v1.PodStatus {
	v := newView(in)
	p := in.Pod
	s := v1.PodStatus{QOSClass: pod.QOSClass(p), ObservedGeneration: p.Generation}
	for _, ip := range in.HostIPs {
		s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip})
	}
	if len(in.HostIPs) > 0 {
		s.HostIP = in.HostIPs[0]
	}
	s.StartTime = &metav1.Time{Time: v.startTime()}
	for _, ip := range v.podIPs() {
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip})
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		is := initContainer
		if pod.IsSidecar(c) {
			is = sidecar
		}
		s.InitContainerStatuses = append(s.InitContainerStatuses, v.container(c, is, i))
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		s.ContainerStatuses = append(s.ContainerStatuses, v.container(c, mainContainer, i))
	}
	for i := range p.Spec.EphemeralContainers {
		c := (*v1.Container)(&p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, v.container(c, ephemeral, i))
	}
	s.Phase = v.phase(s.ContainerStatuses)
	s.Reason, s.Message = v.reasonAndMessage()
	s.Conditions = v.conditions(&s)
	s.Phase = v.publishedPhase(&s)
	return s
}

// Failed is the status of a pod that the node rejects.
func Failed(p *v1.Pod, reason, message string, now time.Time) v1.PodStatus {
	return v1.PodStatus{
		Phase:              v1.PodFailed,
		Reason:             reason,
		Message:            "Pod was rejected: " + message,
		QOSClass:           pod.QOSClass(p),
		StartTime:          &metav1.Time{Time: now},
		ObservedGeneration: p.Generation,
	}
}

// view is an input, with conclusions that several parts of a status need.
type view struct {
	Input
	ending   bool   // no container of the pod is started any more
	reached  int    // see initReached
	idPrefix string // of container ids
}

func newView(in Input) *view {
	if in.Previous == nil && pod.Source(in.Pod) == pod.SourceAPI {
		in.Previous = &in.Pod.Status // written before the agent was restarted
	}
	// Of the previous life, only the ends of containers are shown: as last states.
	in.Observed.Sandboxes = slices.DeleteFunc(slices.Clone(in.Observed.Sandboxes), func(s pod.Sandbox) bool { return s.PreviousLife })
	v := &view{Input: in, idPrefix: "containerd://"}
	if in.Runtime != "" {
		v.idPrefix = in.Runtime + "://"
	}
	v.ending = in.Finished || in.Stopped || in.Termination != nil || in.Stopping != nil
	v.reached = v.initReached()
	return v
}

// initReached is the index of the init container that the pod has come to in its
// newest sandbox: -1 before the first, the number of init containers once a main container
// was created. The newest container decides, because init containers run
// again when the sandbox is replaced or all containers are restarted. Sidecars may
// be restarted at any time, so they are only a lower bound.
func (v *view) initReached() int {
	reached := -1
	for i := range v.Observed.Containers {
		c := &v.Observed.Containers[i]
		if s := v.Observed.Sandbox(); c.PreviousLife || s != nil && c.SandboxID != s.ID {
			continue
		}
		place, is := v.place(c.Name)
		switch is {
		case mainContainer:
			return len(v.Pod.Spec.InitContainers)
		case initContainer:
			return max(reached, place)
		case sidecar:
			reached = max(reached, place)
		}
	}
	return reached
}

// place returns the kind of a container and its index among the containers of that kind.
func (v *view) place(name string) (at int, is kind) {
	for i := range v.Pod.Spec.Containers {
		if v.Pod.Spec.Containers[i].Name == name {
			return i, mainContainer
		}
	}
	for i := range v.Pod.Spec.InitContainers {
		c := &v.Pod.Spec.InitContainers[i]
		switch {
		case c.Name != name:
		case pod.IsSidecar(c):
			return i, sidecar
		default:
			return i, initContainer
		}
	}
	return -1, ephemeral // or no longer in the spec
}

// startTime is when the agent first saw the pod. The sandbox carries it
// for a restarted agent.
func (v *view) startTime() time.Time {
	if v.Previous != nil && v.Previous.StartTime != nil {
		return v.Previous.StartTime.Time
	}
	start := v.Now
	if n := len(v.Observed.Sandboxes); n > 0 && !v.Observed.Sandboxes[n-1].FirstSeen.IsZero() {
		start = v.Observed.Sandboxes[n-1].FirstSeen
	} else if seen := pod.FirstSeen(v.Pod); !seen.IsZero() {
		start = seen
	}
	return start.Truncate(time.Second)
}

func (v *view) podIPs() []string {
	if v.Pod.Spec.HostNetwork {
		return v.HostIPs
	}
	s := v.Observed.Sandbox()
	if s != nil && s.State == pod.SandboxReady {
		return s.IPs
	}
	if v.ending && v.Previous != nil { // a pod that ended keeps its addresses
		var ips []string
		for _, ip := range v.Previous.PodIPs {
			ips = append(ips, ip.IP)
		}
		return ips
	}
	return nil
}
