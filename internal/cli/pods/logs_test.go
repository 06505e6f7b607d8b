package pods

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cli/clitest"
)

func TestLogs(t *testing.T) {
	a := clitest.StartAgent(t, root)
	again := clitest.RunningPod("y", "again", "new")
	again.Status.ContainerStatuses[0].LastTerminationState = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "containerd://old"}}
	waits := clitest.RunningPod("y", "waits", "app")
	waits.Status.ContainerStatuses[0].State = clitest.WaitingState("ErrImagePull")
	a.Set(nil, clitest.RunningPod("x", "web", "app", "side"), again, waits, clitest.RunningPod("y", "web", "yapp"))
	a.WriteLog(t, "app", "one", "two", "three")
	a.WriteLog(t, "side", "aside")
	a.WriteLog(t, "new", "new life")
	a.WriteLog(t, "old", "old life")
	cases := []struct {
		args string
		want clitest.Result
	}{
		{"logs web -n x", clitest.Result{Out: "one\ntwo\nthree\n", Stderr: "Defaulted container \"app\" out of: app, side\n"}},
		{"logs web -n x -c app --tail 1", clitest.Result{Out: "three\n"}},
		{"logs pod/web-node-1 -n x -c side --timestamps", clitest.Result{Out: "2026-01-02T03:04:05Z aside\n"}},
		{"logs again --since-time 2026-01-02T03:04:06Z", clitest.Result{}},
		{"logs again --since 1ms", clitest.Result{}},
		{"logs again", clitest.Result{Out: "new life\n"}},
		{"logs again -p", clitest.Result{Out: "old life\n"}},
		{"logs again --limit-bytes 3", clitest.Result{Out: "new"}},
		{"logs web", clitest.Result{Code: 1, Stderr: "error: pod name \"web\" is ambiguous: it may be any of x/web-node-1, y/web-node-1; name it in full, with its namespace\n"}},
		{"logs again -c nope", clitest.Result{Code: 1, Stderr: "error: pod y/again-node-1 has no container \"nope\": it has new\n"}},
		{"logs waits", clitest.Result{Code: 1, Stderr: "error: container app of pod y/waits-node-1 is waiting to start: ErrImagePull\n"}},
		{"logs web -n x --all-containers --tail 1", clitest.Result{Out: "[pod/web-node-1/app] three\n[pod/web-node-1/side] aside\n"}},
		{"logs waits --all-containers", clitest.Result{Code: 1, Stderr: "error: container app of pod y/waits-node-1 is waiting to start: ErrImagePull\n"}},
		{"logs web --all-containers", clitest.Result{Code: 1, Stderr: "error: pod name \"web\" is ambiguous: it may be any of x/web-node-1, y/web-node-1; name it in full, with its namespace\n"}},
		{"logs web --all-containers -c app", clitest.Result{Code: 1, Stderr: "error: --container and --all-containers exclude each other (see 'berth logs --help')\n"}},
		{"logs nope", clitest.Result{Code: 1, Stderr: "error: pod \"nope\" not found\n"}},
	}
	for _, c := range cases {
		if got := a.Berth(t, strings.Fields(c.args)...); got != c.want {
			t.Errorf("berth %s: got %+v, want %+v", c.args, got, c.want)
		}
	}
}

func TestLogsOfAllContainersAreFollowed(t *testing.T) {
	a := clitest.StartAgent(t, root)
	p := clitest.RunningPod("x", "web", "app", "side")
	p.Spec.InitContainers, p.Status.InitContainerStatuses = []v1.Container{{Name: "first"}}, []v1.ContainerStatus{{Name: "first", State: clitest.WaitingState("ErrImagePull")}}
	a.Set(nil, p)
	a.WriteLog(t, "app", "one")
	a.WriteLog(t, "side")
	c := a.Start(t, "logs", "web", "-f", "--all-containers")
	c.WantLines("[pod/web-node-1/app] one")
	a.WriteLog(t, "side", "aside")
	c.WantLines("[pod/web-node-1/side] aside")
	a.WriteLog(t, "app", "two")
	c.WantLines("[pod/web-node-1/app] two")
	close(a.Ended)
	// The error of the container that waits is printed after the logs of the others have ended.
	c.WantEnd(1, "error: container first of pod x/web-node-1 is waiting to start: ErrImagePull\n")
}

func TestLogsFollow(t *testing.T) {
	a := clitest.StartAgent(t, root)
	a.Set(nil, clitest.RunningPod("x", "web", "app"))
	a.WriteLog(t, "app", "zero", "one")
	t.Run("until it is interrupted", func(t *testing.T) {
		c := a.Start(t, "logs", "web", "-f", "--tail", "1")
		c.WantLines("one")
		c.Interrupt()
		c.WantEnd(0, "")
	})
	t.Run("until the container ends", func(t *testing.T) {
		c := a.Start(t, "logs", "web", "-f", "--tail", "1")
		c.WantLines("one")
		a.WriteLog(t, "app", "two")
		c.WantLines("two")
		close(a.Ended)
		c.WantEnd(0, "")
	})
}
