package status

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// mounting gives a container volume mounts: one that can be written, and three that
// can't, with what they ask for below them.
func mounting(c *v1.Container) {
	c.VolumeMounts = []v1.VolumeMount{
		{Name: "data", MountPath: "/data", SubPath: "part"},
		{Name: "data", MountPath: "/plain", ReadOnly: true},
		{Name: "data", MountPath: "/perhaps/", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyIfPossible)},
		{Name: "locked", MountPath: "locked", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyEnabled)},
	}
}

// below returns the mounts of a status as text: PATH or PATH:ro:MODE.
func below(c v1.ContainerStatus) string {
	var out []string
	for _, m := range c.VolumeMounts {
		text := m.MountPath
		if m.ReadOnly {
			text += ":ro"
		}
		if m.RecursiveReadOnly != nil {
			text += ":" + string(*m.RecursiveReadOnly)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestMountsAreShownAsTheyWereMade(t *testing.T) {
	const none = "/data /plain:ro:Disabled /perhaps/:ro:Disabled locked:ro:Disabled"
	const all = "/data /plain:ro:Disabled /perhaps/:ro:Enabled locked:ro:Enabled"
	able := []string{"/perhaps", "/locked"}
	app := func(state pod.ContainerState, id string, restarts int32, able []string) pod.Container {
		return pod.Container{ID: id, Name: "app", State: state, RestartCount: restarts, ReadOnlyBelow: able}
	}
	for name, test := range map[string]struct {
		given *story
		want  string
	}{
		"nothing is made yet":               {given(v1.RestartPolicyAlways, "app"), none},
		"it was possible":                   {given(v1.RestartPolicyAlways, "app").add(app(pod.ContainerRunning, "a", 0, able)), all},
		"it was not":                        {given(v1.RestartPolicyAlways, "app").add(app(pod.ContainerRunning, "a", 0, nil)), none},
		"made, not started":                 {given(v1.RestartPolicyAlways, "app").add(app(pod.ContainerCreated, "a", 0, able)), all},
		"ended":                             {given(v1.RestartPolicyNever, "app").add(app(pod.ContainerExited, "a", 0, able)).finished(), all},
		"the runtime can do more now":       {given(v1.RestartPolicyAlways, "app").add(app(pod.ContainerExited, "a", 0, nil)).add(app(pod.ContainerRunning, "b", 1, able)), all},
		"the runtime can do less than once": {given(v1.RestartPolicyAlways, "app").add(app(pod.ContainerExited, "a", 0, able)).add(app(pod.ContainerRunning, "b", 1, nil)), none},
	} {
		t.Run(name, func(t *testing.T) {
			mounting(&test.given.Pod.Spec.Containers[0])
			got := test.given.derive()
			if shown := below(got.ContainerStatuses[0]); shown != test.want {
				t.Errorf("shown are %s\nwant      %s", shown, test.want)
			}
			// An agent that starts anew says the same, and so does the next look.
			again := test.given.before(got).derive()
			if raw, err := patchFor(got, again); err != nil || raw != nil {
				t.Errorf("reported again: %s, %v", raw, err)
			}
		})
	}
}

func TestMountsOfContainersOfAllKinds(t *testing.T) {
	s := job(v1.RestartPolicyAlways).debug("shell")
	spec := &s.Pod.Spec
	for _, c := range []*v1.Container{
		&spec.InitContainers[0], &spec.InitContainers[1], &spec.Containers[0], (*v1.Container)(&spec.EphemeralContainers[0].EphemeralContainerCommon),
	} {
		mounting(c)
	}
	got := s.derive()
	for _, c := range []v1.ContainerStatus{got.InitContainerStatuses[0], got.InitContainerStatuses[1], got.ContainerStatuses[0], got.EphemeralContainerStatuses[0]} {
		if len(c.VolumeMounts) != 4 || c.VolumeMounts[3].Name != "locked" {
			t.Errorf("%s: %s", c.Name, below(c))
		}
	}
	if none := got.InitContainerStatuses[2].VolumeMounts; none != nil {
		t.Errorf("a container without mounts has %v", none)
	}
}

// Two mounts may be of one volume. By itself, the API server would merge the list by path.
func TestAPatchOfMounts(t *testing.T) {
	s := given(v1.RestartPolicyAlways, "app").sandbox(pod.SandboxReady)
	mounting(&s.Pod.Spec.Containers[0])
	waits := s.derive()
	s.add(pod.Container{ID: "a", Name: "app", State: pod.ContainerRunning, ReadOnlyBelow: []string{"/perhaps"}})
	runs := s.derive()

	for name, held := range map[string]v1.PodStatus{"nothing": {}, "it waits": waits, "an agent did not tell": without(runs)} {
		raw, err := patchFor(held, runs)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := below(applied(t, held, raw).ContainerStatuses[0]), below(runs.ContainerStatuses[0]); got != want {
			t.Errorf("held was %s: %s makes of it\n%s, want\n%s", name, raw, got, want)
		}
	}
}

// without is a status from which the mounts were left out.
func without(s v1.PodStatus) v1.PodStatus {
	s = *s.DeepCopy()
	for i := range s.ContainerStatuses {
		s.ContainerStatuses[i].VolumeMounts = nil
	}
	return s
}
