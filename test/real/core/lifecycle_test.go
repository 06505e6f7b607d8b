//go:build real

package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/test/real/kit"
)

func TestPodRunsAndAnswers(t *testing.T) {
	t.Parallel()
	// given a manifest with a host port, before the agent runs
	n := kit.NewNode(t)
	web := kit.NewPod("web", "serve", ":8080")
	web.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 8080, HostPort: 18080}}
	n.Apply("web.yaml", web)

	// when the agent starts
	n.Start()
	p := n.WaitRunning("web")["web"]

	// then the pod answers on its address, and on the port of the machine
	if !strings.HasPrefix(p.Status.PodIP, strings.TrimSuffix(n.PodCIDR, "0/24")) {
		t.Errorf("the address %s is not of %s", p.Status.PodIP, n.PodCIDR)
	}
	for _, address := range []string{p.Status.PodIP + ":8080", "127.0.0.1:18080"} {
		if got := n.WaitAnswer(address, "/hostname"); strings.TrimSpace(got) != "web-"+kit.NodeName {
			t.Errorf("%s says that its host name is %q", address, got)
		}
	}

	// and the command prints it: as a list for programs, and as a table for people
	var list v1.PodList
	if err := json.Unmarshal([]byte(n.MustBerth("get", "pods", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if list.Kind != "PodList" || len(list.Items) != 1 || !kit.IsRunning(list.Items[0]) || list.Items[0].Status.PodIP != p.Status.PodIP {
		t.Errorf("get pods -o json: %+v", list)
	}
	for _, c := range list.Items[0].Status.Conditions {
		if c.Status != v1.ConditionTrue {
			t.Errorf("condition %s is %s", c.Type, c.Status)
		}
	}
	table := n.MustBerth("get", "pods", "-o", "wide")
	if !strings.Contains(table, "web-"+kit.NodeName) || !strings.Contains(table, "1/1") || !strings.Contains(table, p.Status.PodIP) {
		t.Errorf("get pods -o wide:\n%s", table)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	// given one pod that wrote a hundred lines, and one that goes on writing
	n := kit.NewNode(t)
	n.Apply("talker.yaml", kit.NewPod("talker", "log", "100"))
	n.Apply("counter.yaml", kit.NewPod("counter", "count"))
	n.Start()
	pods := n.WaitRunning("talker", "counter")

	// then the lines can be read
	n.Wait("all lines of the log", 10*time.Second, func() string {
		if got := strings.Count(n.MustBerth("logs", "talker"), "\n"); got != 100 {
			return fmt.Sprintf("%d lines instead of 100", got)
		}
		return ""
	})
	if got := n.MustBerth("logs", "talker", "--tail", "2"); got != "line 99\nline 100\n" {
		t.Errorf("the last two lines are %q", got)
	}

	// when a container crashes, then the log of the one before is still there
	_, pid := n.Container(kit.ContainerIDs(pods["counter"])["app"])
	kit.KillProcess(t, pid)
	p := n.WaitPod("counter", "runs again", kit.StartTimeout, func(p v1.Pod) string {
		if !kit.IsRunning(p) || kit.AppStatus(p).RestartCount != 1 {
			return "a restart"
		}
		return ""
	})
	if last := kit.AppStatus(p).LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
		t.Errorf("its last state is %+v", last)
	}
	if got := n.MustBerth("logs", "counter", "-p"); !strings.HasPrefix(got, "count 1\n") {
		t.Errorf("the log before the crash is %q", got)
	}

	// when a client follows the log, then it gets all until the end of the container
	followed := make(chan kit.Result, 1)
	go func() { followed <- n.Berth("logs", "counter", "-f") }()
	n.Wait("a few more lines", 10*time.Second, func() string {
		if !strings.Contains(n.MustBerth("logs", "counter"), "count 20\n") {
			return "line count 20"
		}
		return ""
	})
	n.RemoveManifest("counter.yaml")
	got := <-followed
	if got.Code != 0 || !strings.HasPrefix(got.Out, "count 1\n") || !strings.Contains(got.Out, "count 20\n") {
		t.Errorf("followed until the end: %s", got)
	}
}

func TestRestartsWithBackoff(t *testing.T) {
	t.Parallel()
	// given a container that ends with 1 after a moment
	n := kit.NewNode(t)
	n.Apply("crasher.yaml", kit.NewPod("crasher", "exit", "1", "after", "500ms"))
	n.Apply("failed.yaml", kit.WithRestartPolicy(v1.RestartPolicyNever, kit.NewPod("failed", "exit", "3")))
	n.Apply("done.yaml", kit.WithRestartPolicy(v1.RestartPolicyOnFailure, kit.NewPod("done", "exit", "0")))
	n.Start()

	// then it is restarted at once
	restarted := n.WaitPod("crasher", "runs again", kit.StartTimeout, func(p v1.Pod) string {
		if kit.AppStatus(p).RestartCount != 1 || kit.AppStatus(p).State.Running == nil {
			return "the first restart"
		}
		return ""
	})
	last := kit.AppStatus(restarted).LastTerminationState.Terminated
	if last == nil || last.ExitCode != 1 || last.Reason != pod.ReasonError {
		t.Fatalf("its last state is %+v", last)
	}
	if gap := restartGap(n, restarted); gap > 3*time.Second {
		t.Errorf("the first restart came %s after the end", gap)
	}

	// and then has to wait for ten seconds
	waiting := n.WaitPod("crasher", "waits", kit.StartTimeout, func(p v1.Pod) string {
		if w := kit.AppStatus(p).State.Waiting; w == nil || w.Reason != pod.ReasonCrashLoopBackOff {
			return pod.ReasonCrashLoopBackOff
		}
		return ""
	})
	if w := kit.AppStatus(waiting); w.RestartCount != 1 || !strings.Contains(w.State.Waiting.Message, "10s") ||
		w.LastTerminationState.Terminated == nil || w.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("it waits as %s, its last state is %+v", kit.Summary(waiting), w.LastTerminationState.Terminated)
	}
	if waiting.Status.Phase != v1.PodRunning {
		t.Errorf("while it waits, its phase is %s", waiting.Status.Phase)
	}
	again := n.WaitPod("crasher", "runs a third time", 30*time.Second, func(p v1.Pod) string {
		if kit.AppStatus(p).RestartCount != 2 || kit.AppStatus(p).State.Running == nil {
			return "the second restart"
		}
		return ""
	})
	if gap := restartGap(n, again); gap < 10*time.Second || gap > 14*time.Second {
		t.Errorf("the second restart came %s after the end, and not after 10s", gap)
	}

	// and others end for good, as their restart policy says
	pods := n.Pods()
	if p := pods["failed"]; p.Status.Phase != v1.PodFailed || kit.AppStatus(p).RestartCount != 0 || kit.AppStatus(p).State.Terminated == nil || kit.AppStatus(p).State.Terminated.ExitCode != 3 {
		t.Errorf("failed is %s", kit.Summary(p))
	}
	if p := pods["done"]; p.Status.Phase != v1.PodSucceeded || kit.AppStatus(p).RestartCount != 0 {
		t.Errorf("done is %s", kit.Summary(p))
	}
}

func TestRemovedPodLeavesNothing(t *testing.T) {
	t.Parallel()
	// given two pods
	n := kit.NewNode(t)
	n.Apply("keep.yaml", kit.NewPod("keep", "sleep"))
	n.Apply("gone.yaml", kit.NewPod("gone", "sleep"))
	n.Start()
	pods := n.WaitRunning("keep", "gone")
	gone := pods["gone"]
	before := n.Instances(map[string]v1.Pod{"keep": pods["keep"]})

	traces := func() []string {
		found := kit.Filter(kit.Walk(n, "/sys/fs/cgroup"), func(path string) bool { return strings.Contains(path, string(gone.UID)) })
		return append(found, kit.Filter(kit.Walk(n, n.Root), func(path string) bool { return strings.Contains(path, string(gone.UID)) })...)
	}
	if len(traces()) == 0 {
		t.Fatal("a running pod leaves no trace: what is there to look for?")
	}

	// when one of them is removed
	n.RemoveManifest("gone.yaml")
	n.WaitGone("gone")

	// then nothing is left of it, and the other one did not notice
	if left := traces(); len(left) > 0 {
		t.Errorf("these are left: %v", left)
	}
	n.WaitSettled("keep")
	if n := len(n.Containers()); n != 1 {
		t.Errorf("the runtime has %d containers", n)
	}
	n.MustKeepInstances(before)
}

// restartGap is the time between the start of a container and the end of the one before.
func restartGap(n *kit.Node, p v1.Pod) time.Duration {
	n.T.Helper()
	_, before, _ := strings.Cut(kit.AppStatus(p).LastTerminationState.Terminated.ContainerID, "://")
	last, _ := n.Container(before)
	now, _ := n.Container(kit.ContainerIDs(p)["app"])
	return time.Duration(now.StartedAt - last.FinishedAt)
}
