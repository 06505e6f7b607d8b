//go:build real

package real

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestContainersStartAndStopInOrder(t *testing.T) {
	t.Parallel()
	// given a pod with init containers and sidecars, and one like it that ends by itself
	n := newNode(t)
	ordered := func(name string, main ...v1.Container) *v1.Pod {
		p := newPod(name)
		p.Spec.TerminationGracePeriodSeconds = new(int64(20))
		p.Spec.InitContainers = []v1.Container{
			newContainer("first", "diary", "first", "0s", "300ms"),
			sidecar(newContainer("outer", "diary", "outer", "200ms")),
			newContainer("second", "diary", "second", "0s", "200ms"),
			sidecar(newContainer("inner", "diary", "inner", "200ms")),
		}
		p.Spec.Containers = main
		return p
	}
	n.apply("stays.yaml", ordered("stays", newContainer("left", "diary", "left", "1s"), newContainer("right", "diary", "right", "1s")))
	n.apply("ends.yaml", withPolicy(v1.RestartPolicyNever, ordered("ends", newContainer("main", "diary", "main", "0s", "500ms"))))
	n.start()
	stays := n.openDiaries(n.waitRunning("stays")["stays"])

	// then each was started when its turn had come
	stays.until("first start", "first end", "outer start", "second start", "second end", "inner start", "left start")
	stays.until("inner start", "right start")

	// when it is removed
	n.remove("stays.yaml")
	n.waitGone("stays")

	// then the main containers end together, and the sidecars after them, the first one last
	down := stays.read()
	down.mustBeInOrder("left term", "right end", "inner term", "inner end", "outer term", "outer end")
	down.mustBeInOrder("right term", "left end", "inner term")

	// and so it is with the one that ended by itself: its sidecars do not count
	ends := n.waitPod("ends", "ends", startLimit, func(p v1.Pod) string {
		return boolText(p.Status.Phase == v1.PodSucceeded && p.Status.InitContainerStatuses[1].State.Terminated != nil)
	})
	n.openDiaries(ends).until("first start", "first end", "outer start", "second start", "second end", "inner start",
		"main start", "main end", "inner term", "inner end", "outer term", "outer end")
	for _, c := range ends.Status.InitContainerStatuses {
		if end := c.State.Terminated; end == nil || end.ExitCode != 0 || c.RestartCount != 0 {
			t.Errorf("%s ended as %+v after %d restarts", c.Name, end, c.RestartCount)
		}
	}
}

func sidecar(c v1.Container) v1.Container {
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}
