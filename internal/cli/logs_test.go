package cli

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestLogs(t *testing.T) {
	a := startAgent(t, testRoot)
	again := runningPod("y", "again", "new")
	again.Status.ContainerStatuses[0].LastTerminationState = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "containerd://old"}}
	waits := runningPod("y", "waits", "app")
	waits.Status.ContainerStatuses[0].State = waiting("ErrImagePull")
	a.set(nil, runningPod("x", "web", "app", "side"), again, waits, runningPod("y", "web", "yapp"))
	a.log(t, "app", "one", "two", "three")
	a.log(t, "side", "aside")
	a.log(t, "new", "new life")
	a.log(t, "old", "old life")
	cases := []struct {
		args string
		want result
	}{
		{"logs web -n x", result{out: "one\ntwo\nthree\n", stderr: "Defaulted container \"app\" out of: app, side\n"}},
		{"logs web -n x -c app --tail 1", result{out: "three\n"}},
		{"logs pod/web-node-1 -n x -c side --timestamps", result{out: "2026-01-02T03:04:05Z aside\n"}},
		{"logs again --since-time 2026-01-02T03:04:06Z", result{}},
		{"logs again --since 1ms", result{}},
		{"logs again", result{out: "new life\n"}},
		{"logs again -p", result{out: "old life\n"}},
		{"logs again --limit-bytes 3", result{out: "new"}},
		{"logs web", result{code: 1, stderr: "error: pod name \"web\" is ambiguous: it may be any of x/web-node-1, y/web-node-1; name it in full, with its namespace\n"}},
		{"logs again -c nope", result{code: 1, stderr: "error: pod y/again-node-1 has no container \"nope\": it has new\n"}},
		{"logs waits", result{code: 1, stderr: "error: container app of pod y/waits-node-1 is waiting to start: ErrImagePull\n"}},
		{"logs web -n x --all-containers --tail 1", result{out: "[pod/web-node-1/app] three\n[pod/web-node-1/side] aside\n"}},
		{"logs waits --all-containers", result{code: 1, stderr: "error: container app of pod y/waits-node-1 is waiting to start: ErrImagePull\n"}},
		{"logs web --all-containers", result{code: 1, stderr: "error: pod name \"web\" is ambiguous: it may be any of x/web-node-1, y/web-node-1; name it in full, with its namespace\n"}},
		{"logs web --all-containers -c app", result{code: 1, stderr: "error: --container and --all-containers exclude each other (see 'berth logs --help')\n"}},
		{"logs nope", result{code: 1, stderr: "error: pod \"nope\" not found\n"}},
	}
	for _, c := range cases {
		if got := a.berth(t, strings.Fields(c.args)...); got != c.want {
			t.Errorf("berth %s: got %+v, want %+v", c.args, got, c.want)
		}
	}
}

func TestLogsOfAllContainersAreFollowed(t *testing.T) {
	a := startAgent(t, testRoot)
	p := runningPod("x", "web", "app", "side")
	p.Spec.InitContainers, p.Status.InitContainerStatuses = []v1.Container{{Name: "first"}}, []v1.ContainerStatus{{Name: "first", State: waiting("ErrImagePull")}}
	a.set(nil, p)
	a.log(t, "app", "one")
	a.log(t, "side")
	c := a.watch(t, "logs", "web", "-f", "--all-containers")
	c.want("[pod/web-node-1/app] one")
	a.log(t, "side", "aside")
	c.want("[pod/web-node-1/side] aside")
	a.log(t, "app", "two")
	c.want("[pod/web-node-1/app] two")
	close(a.ended)
	// That one has nothing to say is told when the others have said all.
	c.wantEnd(1, "error: container first of pod x/web-node-1 is waiting to start: ErrImagePull\n")
}

func TestLogsFollow(t *testing.T) {
	a := startAgent(t, testRoot)
	a.set(nil, runningPod("x", "web", "app"))
	a.log(t, "app", "zero", "one")
	t.Run("until it is interrupted", func(t *testing.T) {
		c := a.watch(t, "logs", "web", "-f", "--tail", "1")
		c.want("one")
		c.interrupt()
		c.wantEnd(0, "")
	})
	t.Run("until the container ends", func(t *testing.T) {
		c := a.watch(t, "logs", "web", "-f", "--tail", "1")
		c.want("one")
		a.log(t, "app", "two")
		c.want("two")
		close(a.ended)
		c.wantEnd(0, "")
	})
}
