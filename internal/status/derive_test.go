package status

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// story builds the input of Derive, a pod of containers app and log by default.
type story struct{ Input }

func given(policy v1.RestartPolicy, containers ...string) *story {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID, p.Generation = "web", "default", "uid", 3
	p.Annotations = map[string]string{pod.AnnotationSeen: at(0).Format(time.RFC3339Nano)}
	p.Spec.RestartPolicy = policy
	for _, name := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Image: "localhost/" + name + ":1"})
	}
	return &story{Input{Pod: p, HostIPs: []string{"192.0.2.1", "2001:db8::1"}, Notes: map[string]Note{}, Now: at(60)}}
}

func (s *story) sandbox(state pod.SandboxState) *story {
	s.Have.Sandboxes = []pod.Sandbox{{
		ID: "sandbox", State: state, CreatedAt: at(1), IPs: []string{"10.0.0.2", "fd00::2"}, FirstSeen: at(0),
	}}
	return s
}

// add puts a container before those that are there, as the newest of its name.
func (s *story) add(c pod.Container) *story {
	c.SandboxID, c.ImageRef, c.CreatedAt = "sandbox", "sha256:"+c.Name, c.StartedAt
	s.Have.Containers = append([]pod.Container{c}, s.Have.Containers...)
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
	s.Notes[container] = Note{reason, message}
	return s
}

func (s *story) finished() *story { s.Finished = true; return s }

func (s *story) before(b v1.PodStatus) *story { s.Before = &b; return s }

func (s *story) derive() v1.PodStatus { return Derive(s.Input) }

// summary is what a user sees of a container at a glance.
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
	s := given(v1.RestartPolicyAlways, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j").sandbox(pod.SandboxReady)
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
