package status

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// job is a pod with an init container, a sidecar, another init container and a
// main container, on a sandbox.
func job(policy v1.RestartPolicy) *story {
	return given(policy, "app").after("setup", "+net", "load").sandbox(pod.SandboxReady)
}

func TestInitSidecarAndEphemeralContainers(t *testing.T) {
	const always, never, onFailure = v1.RestartPolicyAlways, v1.RestartPolicyNever, v1.RestartPolicyOnFailure
	const wait = "waiting: PodInitializing"
	// up has left all init containers behind.
	up := func(policy v1.RestartPolicy) *story {
		return job(policy).exited("setup", "s", 0, 0, 2, 3).running("net", "n", 0, 4).exited("load", "l", 0, 0, 5, 6)
	}
	for name, test := range map[string]struct {
		given       *story
		want        string
		initialized string
	}{
		"nothing yet": {
			given(always, "app").after("setup", "+net"),
			"Pending | setup " + wait + ", net " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [setup net]",
		},
		"the first runs": {
			job(always).running("setup", "s", 0, 2),
			"Pending | setup running started, net " + wait + ", load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [setup net load]",
		},
		"the image of the first is pulled": {
			job(always).note("setup", pod.ReasonContainerCreating, "Pulling image"),
			"Pending | setup " + wait + ", net " + wait + ", load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [setup net load]",
		},
		"the image of the first is not to be had": {
			job(always).note("setup", pod.ReasonImagePullBackOff, ""),
			"Pending | setup waiting: ImagePullBackOff, net " + wait + ", load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [setup net load]",
		},
		"the first is made, not started": {
			job(always).add(pod.Container{ID: "s", Name: "setup", State: pod.ContainerCreated}),
			"Pending | setup " + wait + ", net " + wait + ", load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [setup net load]",
		},
		"the first ended well": {
			job(always).exited("setup", "s", 0, 0, 2, 3),
			"Pending | setup terminated: Completed ready, net " + wait + ", load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [net load]",
		},
		"the first failed, and waits": {
			job(onFailure).exited("setup", "s", 0, 1, 2, 3).note("setup", pod.ReasonCrashLoopBackOff, ""),
			"Pending | setup waiting: CrashLoopBackOff last=Error, net " + wait + ", load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [setup net load]",
		},
		"the first succeeded in the second go": {
			job(onFailure).exited("setup", "s", 0, 1, 2, 3).exited("setup", "t", 1, 0, 13, 14),
			"Pending | setup terminated: Completed ready last=Error, net " + wait + ", load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [net load]",
		},
		"the first failed for good": {
			job(never).exited("setup", "s", 0, 1, 2, 3).finished(),
			"Failed | setup terminated: Error, net " + wait + ", load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [setup net load]",
		},
		"the sidecar runs, its startup probe is not through": {
			job(always).exited("setup", "s", 0, 0, 2, 3).running("net", "n", 0, 4).started("n", false),
			"Pending | setup terminated: Completed ready, net running, load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [net load]",
		},
		"the sidecar is started and not ready": {
			job(always).exited("setup", "s", 0, 0, 2, 3).running("net", "n", 0, 4).started("n", true).ready("n", false),
			"Pending | setup terminated: Completed ready, net running started, load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [load]",
		},
		"the sidecar just ended, and is not yet started again": {
			job(always).exited("setup", "s", 0, 0, 2, 3).exited("net", "n", 0, 1, 4, 5),
			"Pending | setup terminated: Completed ready, net terminated: Error, load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [net load]",
		},
		"the second of two sidecars just ended": {
			given(always, "app").after("+net", "+dns").sandbox(pod.SandboxReady).running("net", "n", 0, 2).exited("dns", "d", 0, 1, 3, 4),
			"Pending | net running started ready, dns terminated: Error | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [dns]",
		},
		"the sidecar crashed before the last init container ended": {
			job(always).exited("setup", "s", 0, 0, 2, 3).exited("net", "n", 0, 2, 4, 6).running("load", "l", 0, 5).
				note("net", pod.ReasonCrashLoopBackOff, ""),
			"Pending | setup terminated: Completed ready, net waiting: CrashLoopBackOff last=Error, load running started | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [net load]",
		},
		"all init containers are through": {
			up(always),
			"Pending | setup terminated: Completed ready, net running started ready, load terminated: Completed ready | app " + wait,
			"True@6",
		},
		"the main one runs": {
			up(always).running("app", "a", 0, 7),
			"Running | setup terminated: Completed ready, net running started ready, load terminated: Completed ready" +
				" | app running started ready",
			"True@6",
		},
		"the sidecar was restarted since": {
			up(always).running("app", "a", 0, 7).exited("net", "n2", 1, 0, 7, 8).running("net", "n3", 2, 20),
			"Running | setup terminated: Completed ready, net running started ready last=Completed, load terminated: Completed ready" +
				" | app running started ready",
			"True@6",
		},
		"the sidecar crashed while the main one runs": {
			up(always).running("app", "a", 0, 7).exited("net", "n2", 1, 1, 7, 8).note("net", pod.ReasonCrashLoopBackOff, ""),
			"Running | setup terminated: Completed ready, net waiting: CrashLoopBackOff last=Error, load terminated: Completed ready" +
				" | app running started ready",
			"True@6",
		},
		"the init containers were collected": {
			job(always).running("net", "n", 0, 4).running("app", "a", 0, 7),
			"Running | setup terminated: Completed ready, net running started ready, load terminated: Completed ready" +
				" | app running started ready",
			"True@4",
		},
		"a sidecar tells that the init container before it was collected": {
			job(always).running("net", "n", 0, 4),
			"Pending | setup terminated: Completed ready, net running started ready, load " + wait + " | app " + wait,
			"False@0 ContainersNotInitialized: containers with incomplete status: [load]",
		},
		"completed, the sidecar still runs": {
			up(never).exited("app", "a", 0, 0, 7, 30).finished(),
			"Running | setup terminated: Completed ready, net running started ready, load terminated: Completed ready" +
				" | app terminated: Completed",
			"True@6 PodCompleted",
		},
		"completed, the sidecar did not end well": {
			job(never).exited("setup", "s", 0, 0, 2, 3).exited("load", "l", 0, 0, 5, 6).exited("app", "a", 0, 0, 7, 30).
				exited("net", "n", 0, 137, 4, 31).finished(),
			"Succeeded | setup terminated: Completed ready, net terminated: Error, load terminated: Completed ready" +
				" | app terminated: Completed",
			"True@6 PodCompleted",
		},
		"the main one failed": {
			up(never).exited("app", "a", 0, 1, 7, 30).finished(),
			"Running | setup terminated: Completed ready, net running started ready, load terminated: Completed ready" +
				" | app terminated: Error",
			"True@6",
		},
		"the sandbox died": {
			up(always).exited("app", "a", 0, 137, 7, 30).sandbox(pod.SandboxNotReady),
			"Running | setup terminated: Completed ready, net running started ready, load terminated: Completed ready" +
				" | app terminated: Error",
			"True@6",
		},
		"the sandbox was remade: all have another turn": {
			job(always).exited("setup", "s", 0, 0, 2, 3).exited("net", "n", 0, 137, 4, 30).exited("load", "l", 0, 0, 5, 6).
				exited("app", "a", 0, 137, 7, 30).remade(31),
			"Running | setup " + wait + " last=Completed, net " + wait + " last=Error, load " + wait + " last=Completed" +
				" | app terminated: Error",
			"False@31 ContainersNotInitialized: containers with incomplete status: [setup net load]",
		},
		"the sandbox was remade, and the first runs again": {
			job(always).exited("setup", "s", 0, 0, 2, 3).exited("net", "n", 0, 137, 4, 30).exited("load", "l", 0, 0, 5, 6).
				exited("app", "a", 0, 137, 7, 30).remade(31).running("setup", "s2", 1, 32).note("app", pod.ReasonPodInitializing, ""),
			"Running | setup running started last=Completed, net " + wait + " last=Error, load " + wait + " last=Completed" +
				" | app " + wait + " last=Error",
			"False@31 ContainersNotInitialized: containers with incomplete status: [setup net load]",
		},
		"the sandbox was remade, and the first failed for good": {
			job(never).exited("setup", "s", 0, 0, 2, 3).exited("load", "l", 0, 0, 5, 6).
				exited("app", "a", 0, 0, 7, 30).remade(31).exited("setup", "s2", 1, 1, 32, 33).finished(),
			"Failed | setup terminated: Error last=Completed, net " + wait + ", load terminated: Completed ready" +
				" | app terminated: Completed",
			"False@31 ContainersNotInitialized: containers with incomplete status: [setup net]",
		},
		"the sandbox was remade, and the sidecar runs in it": {
			given(always, "app").after("+net").sandbox(pod.SandboxReady).exited("net", "n", 0, 137, 4, 30).exited("app", "a", 0, 137, 7, 30).
				remade(31).running("net", "n2", 1, 32),
			"Running | net running started ready last=Error | app terminated: Error",
			"True@32",
		},
		"an old failure of an init container is history": {
			job(never).exited("setup", "s", 0, 1, 2, 3).exited("app", "a", 0, 0, 7, 30).finished(),
			"Succeeded | setup terminated: Error, net " + wait + ", load terminated: Completed ready | app terminated: Completed",
			"True@0 PodCompleted",
		},
		"all are restarted: the first runs again": {
			up(always).exited("app", "a", 0, 88, 7, 30).running("setup", "s2", 1, 32),
			"Running | setup running started last=Completed, net running started ready, load " + wait + " last=Completed" +
				" | app terminated: Error",
			"False@0 ContainersNotInitialized: containers with incomplete status: [setup load]",
		},
		"an ephemeral container comes": {
			given(always, "app").debug("shell").sandbox(pod.SandboxReady).running("app", "a", 0, 2),
			"Running | app running started ready | shell waiting: ContainerCreating",
			"True@0",
		},
		"an ephemeral container runs": {
			given(always, "app").debug("shell").sandbox(pod.SandboxReady).running("app", "a", 0, 2).running("shell", "d", 0, 9),
			"Running | app running started ready | shell running",
			"True@0",
		},
		"an ephemeral container failed": {
			given(never, "app").debug("shell").sandbox(pod.SandboxReady).exited("app", "a", 0, 0, 2, 20).exited("shell", "d", 0, 1, 9, 10).finished(),
			"Succeeded | app terminated: Completed | shell terminated: Error",
			"True@0 PodCompleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.given.derive()
			if p := describe(got); p != test.want {
				t.Errorf("\ngot  %s\nwant %s", p, test.want)
			}
			if c := describeCondition(got, v1.PodInitialized); c != test.initialized {
				t.Errorf("initialized\ngot  %s\nwant %s", c, test.initialized)
			}
		})
	}
}

// The same as in TestConditionsThroughALifeAlsoForARestartedAgent, for a pod with
// init containers and a sidecar.
func TestInitializingAlsoForARestartedAgent(t *testing.T) {
	life := []struct {
		name string
		is   func() *story
		want []string // Initialized, ContainersReady
	}{
		{
			"the first runs", func() *story { return job(v1.RestartPolicyNever).running("setup", "s", 0, 2).now(3) },
			[]string{
				"False@0 ContainersNotInitialized: containers with incomplete status: [setup net load]",
				"False@0 ContainersNotReady: containers with unready status: [net app]",
			},
		},
		{
			"the sidecar runs", func() *story {
				return job(v1.RestartPolicyNever).exited("setup", "s", 0, 0, 2, 3).running("net", "n", 0, 4).now(4.2)
			},
			[]string{
				"False@0 ContainersNotInitialized: containers with incomplete status: [load]",
				"False@0 ContainersNotReady: containers with unready status: [app]",
			},
		},
		{
			"the last ended", func() *story {
				return job(v1.RestartPolicyNever).exited("setup", "s", 0, 0, 2, 3).running("net", "n", 0, 4).exited("load", "l", 0, 0, 5, 6.5).now(9)
			},
			[]string{"True@6", "False@0 ContainersNotReady: containers with unready status: [app]"},
		},
		{
			"the main one runs", func() *story {
				return job(v1.RestartPolicyNever).exited("setup", "s", 0, 0, 2, 3).running("net", "n", 0, 4).exited("load", "l", 0, 0, 5, 6.5).
					running("app", "a", 0, 8).now(9)
			},
			[]string{"True@6", "True@8"},
		},
		{
			"the sidecar crashed", func() *story {
				return job(v1.RestartPolicyNever).exited("setup", "s", 0, 0, 2, 3).exited("net", "n", 0, 1, 4, 20).exited("load", "l", 0, 0, 5, 6.5).
					running("app", "a", 0, 8).note("net", pod.ReasonCrashLoopBackOff, "").now(21)
			},
			[]string{"True@6", "False@20 ContainersNotReady: containers with unready status: [net]"},
		},
		{
			"the sidecar is back", func() *story {
				return job(v1.RestartPolicyNever).exited("setup", "s", 0, 0, 2, 3).exited("net", "n", 0, 1, 4, 20).exited("load", "l", 0, 0, 5, 6.5).
					running("app", "a", 0, 8).running("net", "m", 1, 30).now(31)
			},
			[]string{"True@6", "True@30"},
		},
		{
			"completed", func() *story {
				return job(v1.RestartPolicyNever).exited("setup", "s", 0, 0, 2, 3).exited("net", "n", 0, 1, 4, 20).exited("load", "l", 0, 0, 5, 6.5).
					exited("app", "a", 0, 0, 8, 40).running("net", "m", 1, 30).finished().now(41)
			},
			[]string{"True@6 PodCompleted", "False@40 PodCompleted"},
		},
	}
	var before *v1.PodStatus
	for _, step := range life {
		s := step.is()
		s.Previous = before
		lived := s.derive()
		if got := []string{describeCondition(lived, v1.PodInitialized), describeCondition(lived, v1.ContainersReady)}; !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", step.name, got, step.want)
		}
		if restarted := step.is().now(3600).derive(); !reflect.DeepEqual(restarted, lived) {
			t.Errorf("%s: a restarted agent says otherwise:\nit   %+v\nwant %+v", step.name, restarted, lived)
		}
		before = &lived
	}
}

func TestACollectedInitContainerKeepsItsStatus(t *testing.T) {
	full := job(v1.RestartPolicyAlways).exited("setup", "s", 2, 0, 2, 3).exited("load", "l", 0, 0, 5, 6).
		running("net", "n", 0, 4).running("app", "a", 0, 7).derive()
	collected := func(before v1.PodStatus) v1.ContainerStatus {
		return job(v1.RestartPolicyAlways).running("net", "n", 0, 4).running("app", "a", 0, 7).before(before).derive().InitContainerStatuses[0]
	}
	if got := collected(full); !reflect.DeepEqual(got, full.InitContainerStatuses[0]) {
		t.Errorf("got %+v", got)
	}
	// The agent was away when it ended well, and when it was collected.
	failed := job(v1.RestartPolicyAlways).exited("setup", "s", 0, 1, 2, 3).derive()
	if got := collected(failed); summary(got) != "terminated: Completed" || !got.Ready {
		t.Errorf("got %+v", got)
	}
}

func TestEveryKindHasCountIdAndTimes(t *testing.T) {
	s := given(v1.RestartPolicyAlways, "app").after("setup", "+net").debug("shell").sandbox(pod.SandboxReady).
		exited("setup", "s1", 1, 0, 2, 3).
		add(pod.Container{ID: "n0", Name: "net", State: pod.ContainerExited, ExitCode: 137, Reason: pod.ReasonOOMKilled, Message: "too much", StartedAt: at(4), FinishedAt: at(5)}).
		running("net", "n1", 1, 6).
		exited("app", "a2", 2, 3, 7, 8).
		add(pod.Container{ID: "d", Name: "shell", State: pod.ContainerUnknown})
	s.Runtime = "cri-o"
	got := s.derive()

	setup := got.InitContainerStatuses[0]
	if end := setup.State.Terminated; setup.RestartCount != 1 || setup.ContainerID != "cri-o://s1" || setup.ImageID != "sha256:setup" ||
		!end.StartedAt.Equal(ptr(at(2))) || !end.FinishedAt.Equal(ptr(at(3))) || end.ContainerID != "cri-o://s1" {
		t.Errorf("setup %+v", setup)
	}
	net := got.InitContainerStatuses[1]
	if last := net.LastTerminationState.Terminated; net.RestartCount != 1 || last.Reason != pod.ReasonOOMKilled || last.Message != "too much" || last.ExitCode != 137 {
		t.Errorf("net %+v", net)
	}
	app := got.ContainerStatuses[0]
	if end := app.State.Terminated; app.RestartCount != 2 || end.ExitCode != 3 || end.Reason != pod.ReasonError {
		t.Errorf("app %+v", app)
	}
	shell := got.EphemeralContainerStatuses[0]
	if end := shell.State.Terminated; shell.Image != "localhost/tools:1" || shell.Started != nil || end.Reason != pod.ReasonContainerStatusUnknown ||
		end.ExitCode != 137 || end.ContainerID != "cri-o://d" {
		t.Errorf("shell %+v", shell)
	}
}
