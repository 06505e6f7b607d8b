package status

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestPhaseAndContainerStates(t *testing.T) {
	const always, never, onFailure = v1.RestartPolicyAlways, v1.RestartPolicyNever, v1.RestartPolicyOnFailure
	for name, test := range map[string]struct {
		given *story
		phase v1.PodPhase
		want  []string
	}{
		"nothing yet":    {given(always, "app"), v1.PodPending, []string{"waiting: ContainerCreating"}},
		"the sandbox up": {given(always, "app").sandbox(pod.SandboxReady), v1.PodPending, []string{"waiting: ContainerCreating"}},
		"an image is awaited": {
			given(always, "app").sandbox(pod.SandboxReady).note("app", "ErrImagePull", "no such host"),
			v1.PodPending,
			[]string{"waiting: ErrImagePull"},
		},
		"one runs, one waits": {
			given(always, "app", "log").sandbox(pod.SandboxReady).running("app", "a", 0, 2).note("log", "ImagePullBackOff", ""),
			v1.PodPending,
			[]string{"running", "waiting: ImagePullBackOff"},
		},
		"all run": {
			given(always, "app", "log").sandbox(pod.SandboxReady).running("app", "a", 0, 2).running("log", "b", 0, 3),
			v1.PodRunning,
			[]string{"running", "running"},
		},
		"made, not started": {
			given(always, "app").sandbox(pod.SandboxReady).add(pod.Container{ID: "a", Name: "app", State: pod.ContainerCreated}),
			v1.PodPending,
			[]string{"waiting: ContainerCreating"},
		},
		"could not be started": {
			given(always, "app").sandbox(pod.SandboxReady).add(pod.Container{ID: "a", Name: "app", State: pod.ContainerCreated}).
				note("app", "RunContainerError", "no such file"),
			v1.PodPending,
			[]string{"waiting: RunContainerError"},
		},
		"crashed, about to be restarted": {
			given(always, "app").sandbox(pod.SandboxReady).exited("app", "a", 0, 1, 2, 3),
			v1.PodRunning,
			[]string{"terminated: Error"},
		},
		"crashed, and waits": {
			given(always, "app").sandbox(pod.SandboxReady).exited("app", "a", 0, 1, 2, 3).note("app", "CrashLoopBackOff", "back-off 10s"),
			v1.PodRunning,
			[]string{"waiting: CrashLoopBackOff"},
		},
		"never: one of two ended": {
			given(never, "app", "log").sandbox(pod.SandboxReady).exited("app", "a", 0, 0, 2, 3).running("log", "b", 0, 2),
			v1.PodRunning,
			[]string{"terminated: Completed", "running"},
		},
		"never: both ended well": {
			given(never, "app", "log").sandbox(pod.SandboxReady).exited("app", "a", 0, 0, 2, 3).exited("log", "b", 0, 0, 2, 4).finished(),
			v1.PodSucceeded,
			[]string{"terminated: Completed", "terminated: Completed"},
		},
		"never: one of two failed": {
			given(never, "app", "log").sandbox(pod.SandboxNotReady).exited("app", "a", 0, 7, 2, 3).exited("log", "b", 0, 0, 2, 4).finished(),
			v1.PodFailed,
			[]string{"terminated: Error", "terminated: Completed"},
		},
		"on failure: succeeded in the end": {
			given(onFailure, "app").sandbox(pod.SandboxReady).exited("app", "a", 0, 1, 2, 3).exited("app", "b", 1, 0, 4, 5).finished(),
			v1.PodSucceeded,
			[]string{"terminated: Completed"},
		},
		"on failure: failed, and waits": {
			given(onFailure, "app").sandbox(pod.SandboxReady).exited("app", "a", 0, 1, 2, 3).note("app", "CrashLoopBackOff", ""),
			v1.PodRunning,
			[]string{"waiting: CrashLoopBackOff"},
		},
		"on failure: stopped in order to run again": { // the API server takes no other state after a success
			given(onFailure, "app").sandbox(pod.SandboxReady).add(pod.Container{ID: "a", Name: "app", State: pod.ContainerExited, ToRestart: true}),
			v1.PodRunning,
			[]string{"waiting: ContainerCreating"},
		},
		"the runtime lost track": {
			given(always, "app").sandbox(pod.SandboxReady).add(pod.Container{ID: "a", Name: "app", State: pod.ContainerUnknown}),
			v1.PodRunning,
			[]string{"terminated: ContainerStatusUnknown"},
		},
		"the runtime's own reason": {
			given(never, "app").add(pod.Container{ID: "a", Name: "app", State: pod.ContainerExited, ExitCode: 137, Reason: "OOMKilled"}).finished(),
			v1.PodFailed,
			[]string{"terminated: OOMKilled"},
		},
		"it ran, and somebody removed all of it": {
			given(always, "app").before(v1.PodStatus{Phase: v1.PodRunning}),
			v1.PodRunning,
			[]string{"waiting: ContainerCreating"},
		},
		"it succeeded before, whatever is there now": {
			given(always, "app").running("app", "a", 0, 2).before(v1.PodStatus{Phase: v1.PodSucceeded}),
			v1.PodSucceeded,
			[]string{"running"},
		},
		"it failed before, whatever is there now": {
			given(never, "app").exited("app", "a", 0, 0, 2, 3).finished().before(v1.PodStatus{Phase: v1.PodFailed}),
			v1.PodFailed,
			[]string{"terminated: Completed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.given.derive()
			if got.Phase != test.phase {
				t.Errorf("phase %s, want %s", got.Phase, test.phase)
			}
			var states []string
			for _, c := range got.ContainerStatuses {
				states = append(states, summary(c))
				if c.Ready != (c.State.Running != nil) || c.Started == nil || *c.Started != c.Ready {
					t.Errorf("%s: ready %t, started %v", c.Name, c.Ready, c.Started)
				}
			}
			if !reflect.DeepEqual(states, test.want) {
				t.Errorf("containers %q, want %q", states, test.want)
			}
		})
	}
}

func TestACrashLoopShowsTheLastEndAndTheCount(t *testing.T) {
	got := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).
		exited("app", "first", 0, 1, 2, 3).exited("app", "second", 1, 2, 3, 4).
		note("app", "CrashLoopBackOff", "back-off 10s").derive().ContainerStatuses[0]
	last := got.LastTerminationState.Terminated
	if got.RestartCount != 1 || got.ContainerID != "containerd://second" || got.ImageID != "sha256:app" {
		t.Errorf("got %+v", got)
	}
	if last == nil || last.ExitCode != 2 || last.ContainerID != "containerd://second" || !last.FinishedAt.Equal(ptr(at(4))) {
		t.Errorf("last state %+v", last)
	}
	if got.State.Waiting.Message != "back-off 10s" {
		t.Errorf("waiting %+v", got.State.Waiting)
	}
}

func TestARunningContainerShowsTheOneBeforeIt(t *testing.T) {
	got := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).
		exited("app", "first", 0, 9, 2, 3).running("app", "second", 1, 4).derive().ContainerStatuses[0]
	if got.State.Running == nil || !got.State.Running.StartedAt.Equal(ptr(at(4))) || got.RestartCount != 1 {
		t.Errorf("got %+v", got)
	}
	if last := got.LastTerminationState.Terminated; last == nil || last.ExitCode != 9 {
		t.Errorf("last state %+v", last)
	}
}

func BenchmarkDerive(b *testing.B) {
	s := given(v1.RestartPolicyAlways, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j").after("x", "y", "+z").sandbox(pod.SandboxReady)
	s.exited("x", "x", 0, 0, 1, 2).exited("y", "y", 0, 0, 1, 2).running("z", "z", 0, 2)
	for _, c := range s.Pod.Spec.Containers {
		s.exited(c.Name, "old-"+c.Name, 0, 1, 2, 3).running(c.Name, c.Name, 1, 4)
	}
	s.before(s.derive())
	b.ReportAllocs()
	for b.Loop() {
		if got := s.derive(); got.Phase != v1.PodRunning {
			b.Fatalf("phase %s", got.Phase)
		}
	}
}

func TestTheImageIsThatOfTheContainer(t *testing.T) {
	for image, want := range map[string]string{
		"localhost/app:0": "localhost/app:0", // the spec was changed since
		"sha256:1":        "localhost/app:1", // the runtime does not know the name
		"":                "localhost/app:1",
	} {
		s := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady).running("app", "a", 0, 2)
		s.Observed.Containers[0].Image = image
		if got := Derive(s.Input).ContainerStatuses[0].Image; got != want {
			t.Errorf("a container of %q is shown with %q, want %q", image, got, want)
		}
	}
}
