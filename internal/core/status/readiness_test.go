package status

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestProbesAndHooksHaveASay(t *testing.T) {
	up := func() *story {
		return given(v1.RestartPolicyAlways, "app", "log").sandbox(pod.SandboxReady).running("app", "a", 0, 2).running("log", "b", 0, 3)
	}
	for name, test := range map[string]struct {
		given *story
		want  string
		ready string
	}{
		"nothing is probed": {up(), "Running | app running started ready, log running started ready", "True@3"},
		"the startup probe has not succeeded": {
			up().started("a", false),
			"Running | app running, log running started ready", "False@0 ContainersNotReady: containers with unready status: [app]",
		},
		"not started, so not ready, whatever the readiness probe says": {
			up().started("a", false).ready("a", true),
			"Running | app running, log running started ready", "False@0 ContainersNotReady: containers with unready status: [app]",
		},
		"started, not ready": {
			up().started("a", true).ready("a", false),
			"Running | app running started, log running started ready", "False@0 ContainersNotReady: containers with unready status: [app]",
		},
		"ready: since when is not known": {
			up().ready("a", true), "Running | app running started ready, log running started ready", "True@60",
		},
		"no longer ready": {
			up().ready("a", false).before(up().derive()),
			"Running | app running started, log running started ready", "False@60 ContainersNotReady: containers with unready status: [app]",
		},
		"what is said of a dead container does not count": {
			up().exited("app", "a2", 1, 1, 4, 5).ready("a2", true).started("a2", true),
			"Running | app terminated: Error, log running started ready", "False@5 ContainersNotReady: containers with unready status: [app]",
		},
	} {
		got := test.given.derive()
		if p := describe(got); p != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, p, test.want)
		}
		for _, which := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
			if c := describeCondition(got, which); c != test.ready {
				t.Errorf("%s: %s\ngot  %s\nwant %s", name, which, c, test.ready)
			}
		}
	}
}

func TestASidecarCountsForReadiness(t *testing.T) {
	s := given(v1.RestartPolicyAlways, "app").after("+net").sandbox(pod.SandboxReady).running("net", "n", 0, 2).running("app", "a", 0, 3).ready("n", false)
	got := s.derive()
	if c := describeCondition(got, v1.PodReady); c != "False@0 ContainersNotReady: containers with unready status: [net]" {
		t.Errorf("ready: %s", c)
	}
	if got.Phase != v1.PodRunning {
		t.Errorf("phase %s", got.Phase)
	}
	s.ready("n", true)
	if c := describeCondition(s.before(got).now(99).derive(), v1.PodReady); c != "True@99" {
		t.Errorf("ready: %s", c)
	}
}

// That a sidecar runs is known from the runtime, that its startup probe succeeded is not.
func TestInitializedWhenAProbeSaysSo(t *testing.T) {
	s := given(v1.RestartPolicyAlways, "app").after("+net").sandbox(pod.SandboxReady).running("net", "n", 0, 2).started("n", true).now(9)
	if c := describeCondition(s.derive(), v1.PodInitialized); c != "True@9" {
		t.Errorf("initialized: %s", c)
	}
}

func TestReadinessGates(t *testing.T) {
	condition := func(name string, status v1.ConditionStatus, second float64) v1.PodCondition {
		return v1.PodCondition{Type: v1.PodConditionType(name), Status: status, LastTransitionTime: *ptr(at(second))}
	}
	up := func(gates ...string) *story {
		s := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).running("app", "a", 0, 2)
		for _, gate := range gates {
			s.Pod.Spec.ReadinessGates = append(s.Pod.Spec.ReadinessGates, v1.PodReadinessGate{ConditionType: v1.PodConditionType(gate)})
		}
		return s
	}
	written := func(s *story, c ...v1.PodCondition) *story { s.Pod.Status.Conditions = c; return s }
	fromAPI := func(s *story) *story { s.Pod.Annotations[pod.AnnotationSource] = pod.SourceAPI; return s }

	const lbMissing = `corresponding condition of pod readiness gate "lb" does not exist.`
	for name, test := range map[string]struct {
		given *story
		want  string
	}{
		"no gates":          {up(), "True@2"},
		"nobody spoke":      {up("lb"), "False@0 ReadinessGatesNotReady: " + lbMissing},
		"shut":              {written(up("lb"), condition("lb", v1.ConditionFalse, 5)), `False@5 ReadinessGatesNotReady: the status of pod readiness gate "lb" is not "True", but False`},
		"not known":         {written(up("lb"), condition("lb", v1.ConditionUnknown, 5)), `False@5 ReadinessGatesNotReady: the status of pod readiness gate "lb" is not "True", but Unknown`},
		"one of two open":   {written(up("dns", "lb"), condition("dns", v1.ConditionTrue, 9)), "False@0 ReadinessGatesNotReady: " + lbMissing},
		"one shut, one not": {written(up("lb", "dns"), condition("dns", v1.ConditionFalse, 9)), "False@0 ReadinessGatesNotReady: " + lbMissing + `, the status of pod readiness gate "dns" is not "True", but False`},
		"open":              {written(up("lb"), condition("lb", v1.ConditionTrue, 9)), "True@9"},
		"both shut, the second before the first": {
			written(up("lb", "dns"), condition("lb", v1.ConditionFalse, 9), condition("dns", v1.ConditionFalse, 7)),
			`False@7 ReadinessGatesNotReady: the status of pod readiness gate "lb" is not "True", but False, the status of pod readiness gate "dns" is not "True", but False`,
		},
		"open before its containers were ready": {written(up("lb"), condition("lb", v1.ConditionTrue, 1)), "True@2"},
		"open, the rest is probed":              {written(up("lb").ready("a", true), condition("lb", v1.ConditionTrue, 9)), "True@60"},
		"open, as it was before":                {up("lb").before(v1.PodStatus{Conditions: []v1.PodCondition{condition("lb", v1.ConditionTrue, 9)}}), "True@9"},
		"shut since": {
			written(up("lb"), condition("lb", v1.ConditionFalse, 30)).before(written(up("lb"), condition("lb", v1.ConditionTrue, 9)).derive()),
			`False@30 ReadinessGatesNotReady: the status of pod readiness gate "lb" is not "True", but False`,
		},
		"taken away by its owner": {
			fromAPI(up("lb")).before(v1.PodStatus{Conditions: []v1.PodCondition{condition("lb", v1.ConditionTrue, 9)}}),
			"False@0 ReadinessGatesNotReady: " + lbMissing,
		},
		"open, but a container is not ready": {
			written(up("lb").ready("a", false), condition("lb", v1.ConditionTrue, 9)),
			"False@0 ContainersNotReady: containers with unready status: [app]",
		},
	} {
		if got := describeCondition(test.given.derive(), v1.PodReady); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, test.want)
		}
	}
	if got := describeCondition(up("lb").derive(), v1.ContainersReady); got != "True@2" {
		t.Errorf("a gate is not about containers: %s", got)
	}
}

func TestWhatOthersWroteIsKept(t *testing.T) {
	wrote := func(name v1.PodConditionType, message string) v1.PodCondition {
		return v1.PodCondition{Type: name, Status: v1.ConditionTrue, Message: message, ObservedGeneration: 1, LastTransitionTime: *ptr(at(5))}
	}
	for name, test := range map[string]struct {
		source      string
		pod, before []v1.PodCondition
		want        []v1.PodCondition // beyond our own
	}{
		"nothing": {},
		"on the pod": {
			pod:  []v1.PodCondition{wrote("lb", "now"), wrote(v1.DisruptionTarget, "preempted")},
			want: []v1.PodCondition{wrote("lb", "now"), wrote(v1.DisruptionTarget, "preempted")},
		},
		"before": {
			before: []v1.PodCondition{wrote("lb", "then"), wrote(v1.DisruptionTarget, "evicted")},
			want:   []v1.PodCondition{wrote("lb", "then"), wrote(v1.DisruptionTarget, "evicted")},
		},
		"the pod's is newer": {
			pod: []v1.PodCondition{wrote("lb", "now")}, before: []v1.PodCondition{wrote("lb", "then")},
			want: []v1.PodCondition{wrote("lb", "now")},
		},
		"taken off in the API server, but for what we wrote ourselves": {
			source: pod.SourceAPI,
			before: []v1.PodCondition{wrote("lb", "then"), wrote(v1.DisruptionTarget, "evicted")},
			want:   []v1.PodCondition{wrote(v1.DisruptionTarget, "evicted")},
		},
		"our own are derived anew": {
			pod: []v1.PodCondition{wrote(v1.PodReady, "?"), wrote(v1.AllContainersRestarting, "?")}, before: []v1.PodCondition{wrote(v1.PodScheduled, "?")},
		},
	} {
		s := given(v1.RestartPolicyAlways, "app").before(v1.PodStatus{Conditions: test.before})
		s.Pod.Annotations[pod.AnnotationSource] = test.source
		s.Pod.Status.Conditions = test.pod
		got := s.derive().Conditions
		if others := got[5:]; len(others) != len(test.want) || (len(others) > 0 && !reflect.DeepEqual(others, test.want)) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, others, test.want)
		}
		for _, c := range got[:5] {
			if c.ObservedGeneration != 3 || c.Message == "?" {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}

func TestARestartOfAllIsShownWhileItGoesOn(t *testing.T) {
	s := given(v1.RestartPolicyNever, "app").sandbox(pod.SandboxReady).exited("app", "a", 0, 88, 2, 3)
	if got := describeCondition(s.derive(), v1.AllContainersRestarting); got != "none" {
		t.Errorf("nobody asked: %s", got)
	}
	s.RestartingAll = true
	first := s.now(4).derive()
	if got := describeCondition(first, v1.AllContainersRestarting); got != "True@4" {
		t.Errorf("it began: %s", got)
	}
	again := s.now(9).before(first).derive()
	if got := describeCondition(again, v1.AllContainersRestarting); got != "True@4" {
		t.Errorf("it goes on: %s", got)
	}
	s.RestartingAll = false
	if got := describeCondition(s.before(again).derive(), v1.AllContainersRestarting); got != "none" {
		t.Errorf("it is over: %s", got)
	}
}
