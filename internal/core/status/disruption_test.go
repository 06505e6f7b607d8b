package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func (s *story) disrupted(reason, message, disruption string) *story {
	s.Termination = &Termination{Reason: reason, Message: message, Disruption: disruption}
	return s
}

func TestDisruptionsAreConditions(t *testing.T) {
	up := func() *story {
		return given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).running("app", "a", 0, 2)
	}
	wrote := func(status v1.ConditionStatus) []v1.PodCondition {
		return []v1.PodCondition{{
			Type: v1.DisruptionTarget, Status: status, Reason: "EvictionByEvictionAPI", Message: "theirs", LastTransitionTime: *ptr(at(10)),
		}}
	}
	for name, test := range map[string]struct {
		given func() *story
		want  string
	}{
		"a pod that goes on": {up, "none"},
		"one that the agent ended for a reason of its own": {
			func() *story { return up().ended("DeadlineExceeded", "too long") }, "none",
		},
		"one that goes down with the machine": {
			func() *story { return up().disrupted("Terminated", "shutdown", "going down") },
			"True@60 TerminationByKubelet: going down",
		},
		"somebody was faster": {
			func() *story {
				s := up().disrupted("Terminated", "shutdown", "going down")
				s.Pod.Status.Conditions = wrote(v1.ConditionTrue)
				return s
			},
			"True@10 EvictionByEvictionAPI: theirs",
		},
		"somebody was faster, and it is no longer in the pod": {
			func() *story {
				return up().disrupted("Terminated", "shutdown", "going down").before(v1.PodStatus{Conditions: wrote(v1.ConditionTrue)})
			},
			"True@10 EvictionByEvictionAPI: theirs",
		},
		"somebody wanted to, and did not": {
			func() *story {
				s := up().disrupted("Terminated", "shutdown", "going down")
				s.Pod.Status.Conditions = wrote(v1.ConditionFalse)
				return s.before(v1.PodStatus{Conditions: wrote(v1.ConditionFalse)})
			},
			"True@60 TerminationByKubelet: going down",
		},
		"it ended well before": {
			func() *story {
				return given(v1.RestartPolicyNever, "app").exited("app", "a", 0, 0, 2, 3).
					disrupted("Terminated", "shutdown", "going down").before(v1.PodStatus{Phase: v1.PodSucceeded})
			},
			"none",
		},
	} {
		s := test.given()
		first := s.derive()
		if got := describeCondition(first, v1.DisruptionTarget); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
		if got := describeCondition(s.now(90).before(first).derive(), v1.DisruptionTarget); got != test.want {
			t.Errorf("%s, half a minute later: got %s, want %s", name, got, test.want)
		}
	}
}

func TestAnEndedPodSaysWhyAlsoWhenItIsOver(t *testing.T) {
	s := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).running("app", "a", 0, 2).disrupted("Preempting", "told", "made room")
	before := s.derive()
	over := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxNotReady).exited("app", "a", 0, 0, 2, 61).stopped().disrupted("Preempting", "told", "made room").before(before).now(62)
	got := over.derive()
	if got.Phase != v1.PodFailed || got.Reason != "Preempting" || got.Message != "told" {
		t.Errorf("got %s %s %q", got.Phase, got.Reason, got.Message)
	}
	if c := describeCondition(got, v1.DisruptionTarget); c != "True@60 TerminationByKubelet: made room" {
		t.Errorf("got %s", c)
	}
}
