package status

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestHowAPodEnds(t *testing.T) {
	const always, never = v1.RestartPolicyAlways, v1.RestartPolicyNever
	up := func(policy v1.RestartPolicy) *story {
		return given(policy, "app").sandbox(pod.SandboxReady).running("app", "a", 0, 2)
	}
	failed := v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "The machine ran short of memory"}
	for name, test := range map[string]struct {
		given           *story
		want            string
		reason, message string
	}{
		"its time was up, and it still runs": {
			up(always).ended("DeadlineExceeded", "Pod was active for too long"),
			"Running | app running started ready", "DeadlineExceeded", "Pod was active for too long",
		},
		"its time was up, and nothing runs any more": {
			given(always, "app").sandbox(pod.SandboxReady).exited("app", "a", 0, 0, 2, 30).ended("DeadlineExceeded", "Pod was active for too long"),
			"Failed | app terminated: Completed", "DeadlineExceeded", "Pod was active for too long",
		},
		"its time was up while it was initialized": {
			given(always, "app").after("setup").sandbox(pod.SandboxReady).running("setup", "s", 0, 2).ended("DeadlineExceeded", ""),
			"Pending | setup running started | app waiting: PodInitializing", "DeadlineExceeded", "",
		},
		"it ended, and somebody still looks into it": {
			given(never, "app").debug("shell").sandbox(pod.SandboxReady).exited("app", "a", 0, 0, 2, 30).running("shell", "d", 0, 20).finished(),
			"Running | app terminated: Completed | shell running", "", "",
		},
		"its time was up before it ran": {
			given(always, "app").ended("DeadlineExceeded", ""),
			"Failed | app waiting: ContainerCreating", "DeadlineExceeded", "",
		},
		"the agent's reason goes before the step": {
			up(always).ended("Evicted", "Short of memory").stopping("stopping containers", 20),
			"Running | app running started ready", "Evicted", "Short of memory",
		},
		"a reason without a message leaves room for the step": {
			up(always).ended("Evicted", "").stopping("stopping containers", 20),
			"Running | app running started ready", "Evicted", "Terminating since 2030-01-01T12:00:20Z: stopping containers",
		},
		"its time was up in a crash loop: it does not come back": {
			given(always, "app").exited("app", "a", 4, 1, 2, 3).note("app", pod.ReasonCrashLoopBackOff, "").ended("DeadlineExceeded", ""),
			"Failed | app terminated: Error", "DeadlineExceeded", "",
		},
		"not ended: containers that were removed come back": {
			given(always, "app", "log").before(given(always, "app", "log").running("app", "a", 0, 2).exited("log", "b", 0, 0, 2, 3).derive()),
			"Running | app waiting: ContainerCreating, log waiting: ContainerCreating", "", "",
		},
		"the reason stays, though the agent that knew it is gone": {
			given(always, "app").sandbox(pod.SandboxNotReady).exited("app", "a", 0, 0, 2, 30).before(failed),
			"Failed | app terminated: Completed", "Evicted", "The machine ran short of memory",
		},
		"the step does not stay": {
			given(always, "app").sandbox(pod.SandboxNotReady).exited("app", "a", 0, 0, 2, 30).stopping("removing volumes", 31).
				before(v1.PodStatus{Phase: v1.PodSucceeded, Message: "Terminating since 2030-01-01T12:00:20Z: stopping containers"}),
			"Succeeded | app terminated: Completed", "", "Terminating since 2030-01-01T12:00:31Z: removing volumes",
		},
		"an end by itself came before the agent's": {
			given(never, "app").exited("app", "a", 0, 0, 2, 30).ended("DeadlineExceeded", "Too long").before(v1.PodStatus{Phase: v1.PodSucceeded}),
			"Succeeded | app terminated: Completed", "", "",
		},
		"being stopped": {
			up(always).stopping("running preStop hooks", 20.7),
			"Running | app running started ready", "", "Terminating since 2030-01-01T12:00:20Z: running preStop hooks",
		},
		"being stopped before it ran": {
			given(always, "app").stopping("stopping the sandbox", 20),
			"Pending | app waiting: ContainerCreating", "", "Terminating since 2030-01-01T12:00:20Z: stopping the sandbox",
		},
		"being stopped in a crash loop: it does not come back": {
			given(always, "app").sandbox(pod.SandboxReady).exited("app", "a", 4, 1, 2, 3).note("app", pod.ReasonCrashLoopBackOff, "").
				stopping("stopping the sandbox", 20),
			"Running | app terminated: Error", "", "Terminating since 2030-01-01T12:00:20Z: stopping the sandbox",
		},
		"stopped, and it took that well": {
			given(always, "app").sandbox(pod.SandboxNotReady).exited("app", "a", 0, 0, 2, 30).stopped(),
			"Succeeded | app terminated: Completed", "", "",
		},
		"stopped with force": {
			given(always, "app", "log").sandbox(pod.SandboxNotReady).exited("app", "a", 0, 137, 2, 30).exited("log", "b", 0, 0, 2, 30).stopped(),
			"Failed | app terminated: Error, log terminated: Completed", "", "",
		},
		"stopped in a crash loop": {
			given(always, "app").exited("app", "a", 4, 1, 2, 3).note("app", pod.ReasonCrashLoopBackOff, "").stopped(),
			"Failed | app terminated: Error", "", "",
		},
		"stopped before it ran": {
			given(always, "app").stopped(),
			"Failed | app waiting: ContainerCreating", "", "",
		},
		"stopped while it was initialized": {
			given(always, "app").after("setup", "load").exited("setup", "s", 0, 143, 2, 3).stopped(),
			"Failed | setup terminated: Error, load waiting: PodInitializing | app waiting: PodInitializing", "", "",
		},
		"stopped after its sidecar was killed": {
			given(always, "app").after("+net").exited("app", "a", 0, 0, 2, 30).exited("net", "n", 0, 137, 2, 31).stopped(),
			"Succeeded | net terminated: Error | app terminated: Completed", "", "",
		},
		"stopped after a restart in a new sandbox": {
			given(always, "app").after("setup").sandbox(pod.SandboxReady).exited("setup", "s", 0, 0, 2, 3).exited("app", "a", 0, 0, 4, 5).remade(6).stopped(),
			"Succeeded | setup terminated: Completed ready | app terminated: Completed", "", "",
		},
		"stopped after its init container ran well in a new sandbox": {
			given(always, "app").after("setup").sandbox(pod.SandboxReady).exited("setup", "s", 0, 0, 2, 3).exited("app", "a", 0, 0, 4, 5).remade(6).
				exited("setup", "s2", 1, 0, 7, 8).stopped(),
			"Succeeded | setup terminated: Completed ready last=Completed | app terminated: Completed", "", "",
		},
		"stopped, and its containers were removed": {
			given(always, "app", "log").stopped().before(
				given(always, "app", "log").exited("app", "a", 0, 0, 2, 3).exited("log", "b", 0, 0, 2, 3).derive()),
			"Succeeded | app terminated: Completed, log terminated: Completed", "", "",
		},
		"stopped, and nobody saw how a container ended": {
			given(always, "app").stopped().before(up(always).derive()),
			"Failed | app terminated: ContainerStatusUnknown", "", "",
		},
		"stopped while a container was about to come back": {
			given(always, "app").stopped().before(
				given(always, "app").exited("app", "a", 0, 1, 2, 3).note("app", pod.ReasonCrashLoopBackOff, "").derive()),
			"Failed | app waiting: ContainerCreating", "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.given.derive()
			if p := describe(got); p != test.want {
				t.Errorf("\ngot  %s\nwant %s", p, test.want)
			}
			if got.Reason != test.reason || got.Message != test.message {
				t.Errorf("%q: %q, want %q: %q", got.Reason, got.Message, test.reason, test.message)
			}
		})
	}
}

func TestAnEndedPodIsNotReadyEvenWhileItRuns(t *testing.T) {
	s := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).running("app", "a", 0, 2)
	s.before(s.derive()).ended("DeadlineExceeded", "").now(90)
	if got := describeCondition(s.derive(), v1.PodReady); got != "False@90 PodFailed" {
		t.Errorf("got %s", got)
	}
}

func TestARejectedPodKeepsItsReason(t *testing.T) {
	s := given(v1.RestartPolicyAlways, "app")
	s.before(Failed(s.Pod, "NodePorts", "port 80 is taken", noon)).stopped()
	got := s.derive()
	if got.Phase != v1.PodFailed || got.Reason != "NodePorts" || got.Message != "Pod was rejected: port 80 is taken" {
		t.Errorf("got %s %s %q", got.Phase, got.Reason, got.Message)
	}
}

// An agent that was restarted has no status of its own yet, but the API server
// has what the one before it wrote.
func TestTheStatusInTheAPIServerIsTheOneBefore(t *testing.T) {
	s := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).running("app", "a", 0, 2).ready("a", true)
	s.Pod.Status = s.now(7).derive()
	s.now(3600)
	if got := describeCondition(s.derive(), v1.PodReady); got != "True@3600" {
		t.Errorf("a file's status is nobody's: got %s", got)
	}
	s.Pod.Annotations[pod.AnnotationSource] = pod.SourceAPI
	if got := s.derive(); !reflect.DeepEqual(got, s.Pod.Status) {
		t.Errorf("got %+v\nwant %+v", got, s.Pod.Status)
	}
}
