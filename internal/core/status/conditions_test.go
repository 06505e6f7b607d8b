package status

import (
	"fmt"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// conditionStrings lists the conditions that change in the life of a pod, as TYPE=STATUS@second reason.
func conditionStrings(s v1.PodStatus) []string {
	var out []string
	for _, c := range s.Conditions {
		switch c.Type {
		case v1.PodReadyToStartContainers, v1.PodReady, v1.ContainersReady:
			out = append(out, fmt.Sprintf("%s=%s@%.0f %s", c.Type, c.Status, c.LastTransitionTime.Sub(noon).Seconds(), c.Reason))
		}
	}
	return out
}

// Each step is derived twice: by the agent that lived through it all, and by one
// that was just started. They must say the same.
func TestConditionsThroughALifeAlsoForARestartedAgent(t *testing.T) {
	life := []struct {
		name string
		now  float64
		is   func() *story
		want []string
	}{
		{
			"nothing yet", 0.5, func() *story { return given(v1.RestartPolicyNever, "app", "log") },
			[]string{
				"PodReadyToStartContainers=False@0 ", "Ready=False@0 ContainersNotReady", "ContainersReady=False@0 ContainersNotReady",
			},
		},
		{
			"the sandbox is up", 1.9, func() *story { return given(v1.RestartPolicyNever, "app", "log").sandbox(pod.SandboxReady) },
			[]string{
				"PodReadyToStartContainers=True@1 ", "Ready=False@0 ContainersNotReady", "ContainersReady=False@0 ContainersNotReady",
			},
		},
		{
			"one runs", 3, func() *story {
				return given(v1.RestartPolicyNever, "app", "log").sandbox(pod.SandboxReady).running("app", "a", 0, 2)
			},
			[]string{
				"PodReadyToStartContainers=True@1 ", "Ready=False@0 ContainersNotReady", "ContainersReady=False@0 ContainersNotReady",
			},
		},
		{
			"both run", 9, func() *story {
				return given(v1.RestartPolicyNever, "app", "log").sandbox(pod.SandboxReady).running("app", "a", 0, 2).running("log", "b", 0, 5.5)
			},
			[]string{"PodReadyToStartContainers=True@1 ", "Ready=True@5 ", "ContainersReady=True@5 "},
		},
		{
			"one ended", 22, func() *story {
				return given(v1.RestartPolicyNever, "app", "log").sandbox(pod.SandboxReady).exited("app", "a", 0, 0, 2, 20).running("log", "b", 0, 5.5)
			},
			[]string{
				"PodReadyToStartContainers=True@1 ", "Ready=False@20 ContainersNotReady", "ContainersReady=False@20 ContainersNotReady",
			},
		},
		{
			"both ended, and the sandbox with them", 33, func() *story {
				return given(v1.RestartPolicyNever, "app", "log").sandbox(pod.SandboxNotReady).
					exited("app", "a", 0, 0, 2, 20).exited("log", "b", 0, 0, 5.5, 30).finished()
			},
			[]string{"PodReadyToStartContainers=False@30 ", "Ready=False@20 PodCompleted", "ContainersReady=False@20 PodCompleted"},
		},
	}
	var before *v1.PodStatus
	for _, step := range life {
		s := step.is()
		s.Now, s.Previous = at(step.now), before
		lived := s.derive()
		if got := conditionStrings(lived); !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", step.name, got, step.want)
		}
		fresh := step.is()
		fresh.Now = at(3600)
		if restarted := fresh.derive(); !reflect.DeepEqual(restarted.Conditions, lived.Conditions) || !restarted.StartTime.Equal(lived.StartTime) {
			t.Errorf("%s: a restarted agent says otherwise:\nit   %+v\nwant %+v", step.name, restarted.Conditions, lived.Conditions)
		}
		before = &lived
	}
}

func TestATransitionTimeStaysWhileNothingChanges(t *testing.T) {
	s := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).running("app", "a", 0, 2)
	first := s.derive()
	s.Now = at(600)
	s.before(first)
	if again := s.derive(); !reflect.DeepEqual(again, first) {
		t.Errorf("ten minutes later:\n%+v\nat first:\n%+v", again, first)
	}
}

// A container that is added to a pod that was ready makes it unready now, not at its beginning.
func TestATransitionIsNotDatedBeforeTheOneBefore(t *testing.T) {
	ready := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).running("app", "a", 0, 2).derive()
	s := given(v1.RestartPolicyAlways, "app", "new").sandbox(pod.SandboxReady).running("app", "a", 0, 2).before(ready)
	s.Now = at(100)
	want := []string{"PodReadyToStartContainers=True@1 ", "Ready=False@100 ContainersNotReady", "ContainersReady=False@100 ContainersNotReady"}
	if got := conditionStrings(s.derive()); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnreadyContainersAreNamed(t *testing.T) {
	got := given(v1.RestartPolicyAlways, "app", "log", "web").sandbox(pod.SandboxReady).running("log", "b", 0, 2).derive()
	if m := got.Conditions[2].Message; m != "containers with unready status: [app web]" {
		t.Errorf("message %q", m)
	}
	if got.Conditions[2].ObservedGeneration != 3 || got.ObservedGeneration != 3 {
		t.Errorf("generation %d, %d", got.Conditions[2].ObservedGeneration, got.ObservedGeneration)
	}
}

func TestAFailedPodIsUnreadyBecauseItFailed(t *testing.T) {
	got := given(v1.RestartPolicyNever, "app").sandbox(pod.SandboxReady).exited("app", "a", 0, 1, 2, 3).finished().derive()
	if c := got.Conditions[2]; c.Status != v1.ConditionFalse || c.Reason != "PodFailed" {
		t.Errorf("got %+v", c)
	}
}

func TestStartTime(t *testing.T) {
	early := at(-3600)
	s := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady)
	s.Observed.Sandboxes = append(s.Observed.Sandboxes, pod.Sandbox{ID: "older", FirstSeen: early})
	if got := s.derive().StartTime; !got.Equal(ptr(early)) {
		t.Errorf("want the time on the oldest sandbox, got %s", got)
	}
	s = given(v1.RestartPolicyAlways, "app")
	s.Pod.Annotations = nil
	if got := s.derive().StartTime; !got.Equal(ptr(s.Now)) {
		t.Errorf("nobody knows better than now, got %s", got)
	}
	s.before(v1.PodStatus{StartTime: ptr(early)}).sandbox(pod.SandboxReady)
	if got := s.derive().StartTime; !got.Equal(ptr(early)) {
		t.Errorf("it must stay, got %s", got)
	}
}

func TestAddresses(t *testing.T) {
	addresses := func(s v1.PodStatus) []string {
		out := []string{s.PodIP}
		for _, ip := range s.PodIPs {
			out = append(out, ip.IP)
		}
		return out
	}
	up := func() *story { return given(v1.RestartPolicyNever, "app").sandbox(pod.SandboxReady) }
	host := given(v1.RestartPolicyNever, "app")
	host.Pod.Spec.HostNetwork = true
	for name, test := range map[string]struct {
		given *story
		want  []string
	}{
		"no sandbox":      {given(v1.RestartPolicyNever, "app"), []string{""}},
		"sandbox":         {up(), []string{"10.0.0.2", "10.0.0.2", "fd00::2"}},
		"dead sandbox":    {given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxNotReady).before(up().derive()), []string{""}},
		"ended":           {given(v1.RestartPolicyNever, "app").sandbox(pod.SandboxNotReady).finished().before(up().derive()), []string{"10.0.0.2", "10.0.0.2", "fd00::2"}},
		"machine network": {host, []string{"192.0.2.1", "192.0.2.1", "2001:db8::1"}},
	} {
		got := test.given.derive()
		if !reflect.DeepEqual(addresses(got), test.want) {
			t.Errorf("%s: got %q, want %q", name, addresses(got), test.want)
		}
		if got.HostIP != "192.0.2.1" || len(got.HostIPs) != 2 {
			t.Errorf("%s: host %s, %v", name, got.HostIP, got.HostIPs)
		}
	}
}

func TestARejectedPod(t *testing.T) {
	p := given(v1.RestartPolicyAlways, "app").Pod
	got := Failed(p, "NodePorts", "port 80 is taken", noon)
	if got.Phase != v1.PodFailed || got.Reason != "NodePorts" || got.Message != "Pod was rejected: port 80 is taken" || got.StartTime == nil {
		t.Errorf("got %+v", got)
	}
}
