package hostports

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/host/roots"
	"berth/internal/lib/pod"
)

func TestHostPortsFollowThePods(t *testing.T) {
	with := func(name string, port int32, phase v1.PodPhase) *v1.Pod {
		p := &v1.Pod{}
		p.Namespace, p.Name, p.UID, p.Status.Phase = "shop", name, pod.UID(name), phase
		p.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: port}}}}
		return p
	}
	held := map[pod.UID][]roots.HostPort{"before": {{Port: 1}}}
	for _, step := range []struct {
		changes pod.Changes
		want    []string
	}{
		{pod.Changes{All: true, Pods: []*v1.Pod{with("b", 81, v1.PodRunning), with("a", 80, v1.PodPending), with("c", 0, v1.PodRunning)}}, []string{"shop/a", "shop/b"}},
		{pod.Changes{Pods: []*v1.Pod{with("d", 82, v1.PodFailed), with("a", 80, v1.PodSucceeded)}}, []string{"shop/b"}},
		{pod.Changes{Gone: []pod.UID{"b", "x"}}, nil},
	} {
		update(held, step.changes)
		var got []string
		for _, port := range flatten(held) {
			got = append(got, port.Pod)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("got %v, want %v", got, step.want)
		}
	}
}
