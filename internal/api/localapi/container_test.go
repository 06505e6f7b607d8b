package localapi

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPickLife(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
	}
	waiting := func(reason, message string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	cases := []struct {
		name     string
		status   v1.ContainerStatus
		previous bool
		want     string // the id, or a part of the problem
	}{
		{"running", v1.ContainerStatus{State: running, ContainerID: "containerd://two"}, false, "two"},
		{"ended", v1.ContainerStatus{State: ended("containerd://two")}, false, "two"},
		{"ended and forgotten", v1.ContainerStatus{State: ended("")}, false, "no longer knows it"},
		{"waits for its restart", v1.ContainerStatus{State: waiting("CrashLoopBackOff", ""), LastTerminationState: ended("containerd://one")}, false, "one"},
		{"has not started", v1.ContainerStatus{State: waiting("ErrImagePull", "no such image")}, false, "container app of pod x/web-node-1 is waiting to start: ErrImagePull: no such image"},
		{"has no status", v1.ContainerStatus{}, false, "is waiting to start"},
		{"before it was restarted", v1.ContainerStatus{State: running, LastTerminationState: ended("containerd://one")}, true, "one"},
		{"was never restarted", v1.ContainerStatus{State: running, ContainerID: "containerd://one"}, true, "has no previous life"},
		{"an id without a runtime", v1.ContainerStatus{State: running, ContainerID: "two"}, false, "two"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newPod("x", "web", "app")
			c.status.Name = "app"
			p.Status.ContainerStatuses = []v1.ContainerStatus{c.status}
			got, problem := pickLife(p, "app", "", c.previous)
			if problem != nil {
				got = problem.text
			}
			if problem == nil && got != c.want || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("a pod that was turned away", func(t *testing.T) {
		p := newPod("x", "web")
		p.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "NodePorts", Message: "port 80 is taken"}
		if _, problem := pickLife(p, "app", "", false); problem == nil || !strings.Contains(problem.text, "NodePorts: port 80 is taken") {
			t.Errorf("got %v, want why it does not run", problem)
		}
	})
}
