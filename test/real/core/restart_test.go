//go:build real

package core

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

func TestContainersRestartByTheirOwnRules(t *testing.T) {
	t.Parallel()
	// given a pod in which one container asks for a restart of all by its exit code
	n := kit.NewNode(t)
	all := kit.NewPod("all", "exit", "42", "after", "700ms")
	all.Spec.InitContainers = []v1.Container{
		kit.NewContainer("init", "activity", "init", "0s", "100ms"),
		kit.Sidecar(kit.NewContainer("side", "activity", "side", "0s")),
	}
	all.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
	all.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	all.Spec.Containers = append(all.Spec.Containers, kit.NewContainer("other", "activity", "other", "0s"))

	// and one in which a container has one life, and another one has many
	mixed := kit.NewPod("mixed", "sleep")
	once := kit.NewContainer("once", "exit", "3", "after", "100ms")
	once.RestartPolicy = new(v1.ContainerRestartPolicyNever)
	mixed.Spec.Containers = append(mixed.Spec.Containers, once)
	mixed.Spec.InitContainers = []v1.Container{kit.Sidecar(kit.NewContainer("side", "sleep"))}
	n.Apply("all.yaml", all)
	n.Apply("mixed.yaml", mixed)
	n.Start()

	// then all containers of the first are restarted, in their order
	p := n.WaitPod("all", "is restarted", kit.StartTimeout, func(p v1.Pod) string {
		for _, c := range everyContainer(p) {
			if c.RestartCount != 1 {
				return fmt.Sprintf("the restart of %s (%d)", c.Name, c.RestartCount)
			}
		}
		return kit.MissingUnless(len(everyContainer(p)) == 4)
	})
	log := n.OpenActivityLogs(p).WaitInOrder("init start", "init end", "side start", "other start") // the last ones
	log.MustBeInOrder("other term", "init start")
	log.MustBeInOrder("side term", "init start")
	if last := kit.AppStatus(p).LastTerminationState.Terminated; kit.AppStatus(p).State.Running != nil && (last == nil || last.ExitCode != 42) {
		t.Errorf("the last state of the one who asked is %+v", last)
	}

	// and of the second, the container that has one life stays as it ended
	before := n.WaitPod("mixed", "has one that ended", kit.StartTimeout, func(p v1.Pod) string {
		c := p.Status.ContainerStatuses
		return kit.MissingUnless(len(c) == 2 && c[0].State.Running != nil && c[1].State.Terminated != nil && c[1].State.Terminated.ExitCode == 3)
	})

	// when its sidecar crashes, then that is restarted, and nothing else
	_, pid := n.Container(strings.TrimPrefix(before.Status.InitContainerStatuses[0].ContainerID, "containerd://"))
	kit.KillProcess(t, pid)
	after := n.WaitPod("mixed", "has its sidecar back", kit.StartTimeout, func(p v1.Pod) string {
		c := p.Status.InitContainerStatuses[0]
		return kit.MissingUnless(c.RestartCount == 1 && c.State.Running != nil)
	})
	if last := after.Status.InitContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
		t.Errorf("the sidecar's last state is %+v", last)
	}
	for i, c := range after.Status.ContainerStatuses {
		if was := before.Status.ContainerStatuses[i]; c.ContainerID != was.ContainerID || c.RestartCount != 0 {
			t.Errorf("%s was %s, and is %s with %d restarts", c.Name, was.ContainerID, c.ContainerID, c.RestartCount)
		}
	}
	if after.Status.Phase != v1.PodRunning {
		t.Errorf("the phase is %s", after.Status.Phase)
	}
}

// everyContainer are the statuses of init containers, sidecars and main ones.
func everyContainer(p v1.Pod) []v1.ContainerStatus {
	return append(append([]v1.ContainerStatus(nil), p.Status.InitContainerStatuses...), p.Status.ContainerStatuses...)
}
