package plan

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// runningPod is a pod of n containers, and an observation in which all of them run.
func runningPod(n int) (*v1.Pod, pod.Observed) {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = "web", "default", "uid"
	have := pod.Observed{UID: "uid", At: noon}
	for i := range n {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{
			Name: fmt.Sprintf("c%d", i), Image: "localhost/app:1", Command: []string{"/app"}, Args: []string{"--listen", ":80"},
			Env:   []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
			Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(8000 + i), Protocol: v1.ProtocolTCP}},
		})
	}
	have.Sandboxes = []pod.Sandbox{{ID: "s", State: pod.SandboxReady, CreatedAt: noon, Hash: SandboxHash(p)}}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		have.Containers = append(have.Containers, pod.Container{
			ID: "id-" + c.Name, Name: c.Name, SandboxID: "s", State: pod.ContainerRunning, StartedAt: noon, Hash: ContainerHash(c),
		})
	}
	return p, have
}

func TestNothingIsDoneToAPodThatIsAsItShouldBe(t *testing.T) {
	p, have := runningPod(3)
	got := Next(p, have, DefaultBackoff, noon)
	if len(got.Actions) != 0 || len(got.Waits) != 0 || got.Finished || !got.Due().IsZero() || got.FirstStart() {
		t.Fatalf("got %+v", got)
	}
}

func TestNextLeavesItsInputAlone(t *testing.T) {
	p, have := runningPod(2)
	have.Containers[0].State = pod.ContainerExited
	p.Spec.Containers[1].Image = "localhost/app:2"
	wantPod := p.DeepCopy()
	wantHave := have
	wantHave.Containers, wantHave.Sandboxes = slices.Clone(have.Containers), slices.Clone(have.Sandboxes)

	first, second := Next(p, have, DefaultBackoff, noon), Next(p, have, DefaultBackoff, noon)

	if !reflect.DeepEqual(first, second) {
		t.Errorf("two plans for the same: %+v and %+v", first, second)
	}
	if !reflect.DeepEqual(p, wantPod) || !reflect.DeepEqual(have, wantHave) {
		t.Error("planning changed what it was given")
	}
}

func TestAnOlderContainerThatWasNeverStartedIsRemoved(t *testing.T) {
	p, have := runningPod(1)
	stillborn := have.Containers[0]
	stillborn.ID, stillborn.State, stillborn.StartedAt = "stillborn", pod.ContainerCreated, time.Time{}
	have.Containers = append(have.Containers, stillborn)
	got := Next(p, have, DefaultBackoff, noon)
	if len(got.Actions) != 1 || got.Actions[0] != (RemoveContainer{ID: "stillborn"}) {
		t.Fatalf("got %+v", got.Actions)
	}
}

// The time at which a pod was first seen is handed on from sandbox to sandbox:
// the agent that makes the next one may have seen the pod later.
func TestASandboxInheritsTheFirstSeenTime(t *testing.T) {
	p, have := runningPod(1)
	early, late := noon.Add(-time.Hour), noon.Add(-time.Minute)
	have.Sandboxes[0].State, have.Sandboxes[0].FirstSeen = pod.SandboxNotReady, late
	have.Sandboxes = append(have.Sandboxes, pod.Sandbox{ID: "older", FirstSeen: early})
	for _, a := range Next(p, have, DefaultBackoff, noon).Actions {
		if create, ok := a.(CreateSandbox); ok {
			if !create.FirstSeen.Equal(early) {
				t.Fatalf("first seen at %s, want %s", create.FirstSeen, early)
			}
			return
		}
	}
	t.Fatal("no sandbox is made")
}

func TestDueIsTheFirstOfTheWaits(t *testing.T) {
	p := Plan{Waits: []Wait{{Until: noon.Add(3 * time.Second)}, {Until: noon.Add(time.Second)}, {Until: noon.Add(2 * time.Second)}}}
	if got := p.Due(); !got.Equal(noon.Add(time.Second)) {
		t.Fatalf("got %s", got)
	}
}

func TestWhatCountsAsAFirstStart(t *testing.T) {
	for name, test := range map[string]struct {
		actions []Action
		want    bool
	}{
		"nothing":             {nil, false},
		"a new sandbox":       {[]Action{CreateSandbox{Attempt: 3}, StartContainer{RestartCount: 4}}, true},
		"a new container":     {[]Action{StartContainer{RestartCount: 1}, StartContainer{}}, true},
		"a restart":           {[]Action{StartContainer{RestartCount: 1}}, false},
		"a stop, and cleanup": {[]Action{StopContainer{}, RemoveContainer{}}, false},
	} {
		if got := (Plan{Actions: test.actions}).FirstStart(); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestBackoffRulesThatWouldSpinAreRefused(t *testing.T) {
	for _, b := range []Backoff{
		{},
		{Initial: time.Second, Max: time.Second},
		{Initial: time.Minute, Max: time.Second, Reset: time.Minute},
		{Initial: -1, Max: time.Second, Reset: time.Minute},
	} {
		if b.Validate() == nil {
			t.Errorf("%+v was accepted", b)
		}
	}
	if err := DefaultBackoff.Validate(); err != nil {
		t.Error(err)
	}
}

// What is changed from outside of a container, or in place, must not restart it.
func TestWhatAHashCovers(t *testing.T) {
	base, _ := runningPod(1)
	sandbox, container := SandboxHash(base), ContainerHash(&base.Spec.Containers[0])
	for name, test := range map[string]struct {
		edit               func(*v1.Pod, *v1.Container)
		sandbox, container bool
	}{
		"image":        {func(_ *v1.Pod, c *v1.Container) { c.Image = "localhost/app:2" }, false, true},
		"variable":     {func(_ *v1.Pod, c *v1.Container) { c.Env[0].Value = "3" }, false, true},
		"pull policy":  {func(_ *v1.Pod, c *v1.Container) { c.ImagePullPolicy = v1.PullAlways }, false, false},
		"probe":        {func(_ *v1.Pod, c *v1.Container) { c.LivenessProbe = &v1.Probe{} }, false, false},
		"label":        {func(p *v1.Pod, _ *v1.Container) { p.Labels = map[string]string{"a": "b"} }, false, false},
		"host port":    {func(_ *v1.Pod, c *v1.Container) { c.Ports[0].HostPort = 9999 }, true, false},
		"open port":    {func(_ *v1.Pod, c *v1.Container) { c.Ports = append(c.Ports, v1.ContainerPort{ContainerPort: 81}) }, false, false},
		"host network": {func(p *v1.Pod, _ *v1.Container) { p.Spec.HostNetwork = true }, true, false},
		"host name":    {func(p *v1.Pod, _ *v1.Container) { p.Spec.Hostname = "other" }, true, false},
		"grace period": {func(p *v1.Pod, _ *v1.Container) { p.Spec.TerminationGracePeriodSeconds = new(int64) }, false, false},
	} {
		p := base.DeepCopy()
		test.edit(p, &p.Spec.Containers[0])
		if got := SandboxHash(p) != sandbox; got != test.sandbox {
			t.Errorf("%s: the sandbox must change: %t, got %t", name, test.sandbox, got)
		}
		if got := ContainerHash(&p.Spec.Containers[0]) != container; got != test.container {
			t.Errorf("%s: the container must change: %t, got %t", name, test.container, got)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	p, have := runningPod(10)
	b.ReportAllocs()
	for b.Loop() {
		if got := Next(p, have, DefaultBackoff, noon); len(got.Actions) != 0 {
			b.Fatalf("got %+v", got)
		}
	}
}
