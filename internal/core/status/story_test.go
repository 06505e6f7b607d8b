package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func ptr(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }

// story builds the input of Derive.
type story struct{ Input }

func given(policy v1.RestartPolicy, containers ...string) *story {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID, p.Generation = "web", "default", "uid", 3
	p.Annotations = map[string]string{pod.AnnotationSeen: at(0).Format(time.RFC3339Nano)}
	p.Spec.RestartPolicy = policy
	for _, name := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Image: "localhost/" + name + ":1"})
	}
	return &story{Input{Pod: p, HostIPs: []string{"192.0.2.1", "2001:db8::1"}, Waiting: map[string]WaitingReason{}, Now: at(60)}}
}

// after says which init containers come before the main ones. A + marks sidecars.
func (s *story) after(names ...string) *story {
	for _, name := range names {
		c := v1.Container{Name: strings.TrimPrefix(name, "+"), Image: "localhost/" + name + ":1"}
		if c.Name != name {
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		s.Pod.Spec.InitContainers = append(s.Pod.Spec.InitContainers, c)
	}
	return s
}

func (s *story) debug(name string) *story {
	s.Pod.Spec.EphemeralContainers = append(s.Pod.Spec.EphemeralContainers, v1.EphemeralContainer{
		EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: "localhost/tools:1"},
	})
	return s
}

func (s *story) sandbox(state pod.SandboxState) *story {
	s.Observed.Sandboxes = []pod.Sandbox{{
		ID: "sandbox", State: state, CreatedAt: at(1), IPs: []string{"10.0.0.2", "fd00::2"}, FirstSeen: at(0),
	}}
	return s
}

// add puts a container before those that are there, as the newest of its name.
func (s *story) add(c pod.Container) *story {
	c.SandboxID, c.ImageRef, c.CreatedAt = "sandbox", "sha256:"+c.Name, c.StartedAt
	if newest := s.Observed.Sandbox(); newest != nil {
		c.SandboxID = newest.ID
	}
	s.Observed.Containers = append([]pod.Container{c}, s.Observed.Containers...)
	return s
}

func (s *story) running(name, id string, restarts int32, since float64) *story {
	return s.add(pod.Container{ID: id, Name: name, State: pod.ContainerRunning, RestartCount: restarts, StartedAt: at(since)})
}

func (s *story) exited(name, id string, restarts, code int32, from, to float64) *story {
	return s.add(pod.Container{
		ID: id, Name: name, State: pod.ContainerExited, RestartCount: restarts, ExitCode: code, StartedAt: at(from), FinishedAt: at(to),
	})
}

func (s *story) note(container, reason, message string) *story {
	s.Waiting[container] = WaitingReason{reason, message}
	return s
}

func (s *story) finished() *story { s.Finished = true; return s }

func (s *story) stopped() *story { s.Stopped = true; return s }

func (s *story) ended(reason, message string) *story {
	s.Termination = &Termination{Reason: reason, Message: message}
	return s
}

func (s *story) stopping(step string, since float64) *story {
	s.Stopping = &TerminationStep{Step: step, Since: at(since)}
	return s
}

func (s *story) now(seconds float64) *story { s.Now = at(seconds); return s }

// started and ready give the result of a probe of a container.
func (s *story) started(id string, is bool) *story {
	s.byID(id).Health.Started = &is
	return s
}

func (s *story) ready(id string, is bool) *story {
	s.byID(id).Health.Ready = &is
	return s
}

func (s *story) byID(id string) *pod.Container {
	at := slices.IndexFunc(s.Observed.Containers, func(c pod.Container) bool { return c.ID == id })
	return &s.Observed.Containers[at]
}

// remade puts a new sandbox before the one that is there, which is dead.
func (s *story) remade(second float64) *story {
	s.Observed.Sandboxes[0].State = pod.SandboxNotReady
	s.Observed.Sandboxes = append([]pod.Sandbox{{
		ID: "second", Attempt: 1, State: pod.SandboxReady, CreatedAt: at(second), FirstSeen: at(0),
	}}, s.Observed.Sandboxes...)
	return s
}

func (s *story) before(b v1.PodStatus) *story { s.Previous = &b; return s }

func (s *story) derive() v1.PodStatus { return Derive(s.Input) }

// summary returns the state of a container as a short text.
func summary(c v1.ContainerStatus) string {
	switch {
	case c.State.Running != nil:
		return "running"
	case c.State.Terminated != nil:
		return "terminated: " + c.State.Terminated.Reason
	case c.State.Waiting != nil:
		return "waiting: " + c.State.Waiting.Reason
	default:
		return "nothing"
	}
}

// describe returns a status as text: phase | init containers | containers | ephemeral containers.
func describe(s v1.PodStatus) string {
	parts := []string{string(s.Phase)}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		var names []string
		for _, c := range list {
			text := c.Name + " " + summary(c)
			if c.Started != nil && *c.Started {
				text += " started"
			}
			if c.Ready {
				text += " ready"
			}
			if c.LastTerminationState.Terminated != nil {
				text += " last=" + c.LastTerminationState.Terminated.Reason
			}
			names = append(names, text)
		}
		if len(names) > 0 {
			parts = append(parts, strings.Join(names, ", "))
		}
	}
	return strings.Join(parts, " | ")
}

// describeCondition shows one condition as: STATUS@second reason: message.
func describeCondition(s v1.PodStatus, which v1.PodConditionType) string {
	c := conditionOf(&s, which)
	if c == nil {
		return "none"
	}
	text := fmt.Sprintf("%s@%.0f", c.Status, c.LastTransitionTime.Sub(noon).Seconds())
	if c.Reason != "" {
		text += " " + c.Reason
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}
