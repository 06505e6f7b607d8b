package cgroup

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestPodsWhoseCgroupVanishedAreFound(t *testing.T) {
	named := func(uid pod.UID) *corev1.Pod {
		p := &corev1.Pod{}
		p.UID = uid
		return p
	}
	ready := []pod.Sandbox{{State: pod.SandboxReady}}
	got := Vanished(
		[]*corev1.Pod{named("well"), named("lost"), named("not started"), named("ended")},
		[]pod.Observed{{UID: "well", Sandboxes: ready}, {UID: "lost", Sandboxes: ready}, {UID: "ended", Sandboxes: []pod.Sandbox{{}}}, {UID: "orphan", Sandboxes: ready}},
		func(p *corev1.Pod) bool { return p.UID == "well" },
	)
	if !slices.Equal(got, []pod.UID{"lost"}) {
		t.Errorf("got %q", got)
	}
}
