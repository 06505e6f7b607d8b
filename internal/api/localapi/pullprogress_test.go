package localapi

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPodsSayHowMuchOfAnImageIsHere(t *testing.T) {
	p := &v1.Pod{}
	waits := func(image, message string) v1.ContainerStatus {
		return v1.ContainerStatus{Image: image, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Message: message}}}
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{
		waits("a", `Pulling image "a"`), waits("b", `Pulling image "b"`), waits("a", "something else"), {Image: "a"},
	}
	got := withProgress(p, func(image string) string { return map[string]string{"a": "1 of 2"}[image] })
	for i, want := range []string{`Pulling image "a": 1 of 2`, `Pulling image "b"`, "something else"} {
		if m := got.Status.ContainerStatuses[i].State.Waiting.Message; m != want {
			t.Errorf("got %q, want %q", m, want)
		}
	}
	if p.Status.ContainerStatuses[0].State.Waiting.Message != `Pulling image "a"` {
		t.Error("what others read was written to")
	}
	if withProgress(got, func(string) string { return "" }) != got {
		t.Error("a pod is copied without a reason")
	}
}
