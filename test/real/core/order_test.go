//go:build real

package core

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

func TestContainersStartAndStopInOrder(t *testing.T) {
	t.Parallel()
	// given a pod with init containers and sidecars, and one like it that ends by itself
	n := kit.NewNode(t)
	ordered := func(name string, main ...v1.Container) *v1.Pod {
		p := kit.NewPod(name)
		p.Spec.TerminationGracePeriodSeconds = new(int64(20))
		p.Spec.InitContainers = []v1.Container{
			kit.NewContainer("first", "activity", "first", "0s", "300ms"),
			kit.Sidecar(kit.NewContainer("outer", "activity", "outer", "200ms")),
			kit.NewContainer("second", "activity", "second", "0s", "200ms"),
			kit.Sidecar(kit.NewContainer("inner", "activity", "inner", "200ms")),
		}
		for i, hook := range map[int]string{1: "outer-hook", 3: "inner-hook"} {
			p.Spec.InitContainers[i].Lifecycle = &v1.Lifecycle{PreStop: kit.ExecHook("hook", hook, "10ms", "0")}
		}
		p.Spec.Containers = main
		return p
	}
	n.Apply("stays.yaml", ordered("stays", kit.NewContainer("left", "activity", "left", "1s"), kit.NewContainer("right", "activity", "right", "1s")))
	n.Apply("ends.yaml", kit.WithRestartPolicy(v1.RestartPolicyNever, ordered("ends", kit.NewContainer("main", "activity", "main", "0s", "500ms"))))
	n.Start()
	stays := n.OpenActivityLogs(n.WaitRunning("stays")["stays"])

	// then each was started when its turn had come
	stays.WaitInOrder("first start", "first end", "outer start", "second start", "second end", "inner start", "left start")
	stays.WaitInOrder("inner start", "right start")

	// when it is removed
	n.RemoveManifest("stays.yaml")
	n.WaitGone("stays")

	// then the main containers end together, and the sidecars after them, the first one last
	down := stays.Read()
	down.MustBeInOrder("left term", "right end", "inner term", "inner end", "outer term", "outer end")
	down.MustBeInOrder("right term", "left end", "inner term")

	// and all hooks begin at the beginning
	for _, hook := range []string{"inner-hook start", "outer-hook start"} {
		down.MustBeInOrder(hook, "left end")
		down.MustBeInOrder(hook, "right end")
	}

	// and so it is with the one that ended by itself: its sidecars do not count
	ends := n.WaitPod("ends", "ends", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(p.Status.Phase == v1.PodSucceeded && p.Status.InitContainerStatuses[1].State.Terminated != nil)
	})
	n.OpenActivityLogs(ends).WaitInOrder("first start", "first end", "outer start", "second start", "second end", "inner start",
		"main start", "main end", "inner term", "inner end", "outer term", "outer end")
	for _, c := range ends.Status.InitContainerStatuses {
		if end := c.State.Terminated; end == nil || end.ExitCode != 0 || c.RestartCount != 0 {
			t.Errorf("%s ended as %+v after %d restarts", c.Name, end, c.RestartCount)
		}
	}
}
