//go:build real

package real

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestPodRunsAndAnswers(t *testing.T) {
	t.Parallel()
	// given a manifest with a host port, before the agent runs
	n := newNode(t)
	web := newPod("web", "serve", ":8080")
	web.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 8080, HostPort: 18080}}
	n.apply("web.yaml", web)

	// when the agent starts
	n.start()
	p := n.waitRunning("web")["web"]

	// then the pod answers on its address, and on the port of the machine
	if !strings.HasPrefix(p.Status.PodIP, strings.TrimSuffix(n.podCIDR, "0/24")) {
		t.Errorf("the address %s is not of %s", p.Status.PodIP, n.podCIDR)
	}
	for _, address := range []string{p.Status.PodIP + ":8080", "127.0.0.1:18080"} {
		if got := n.waitAnswer(address, "/hostname"); strings.TrimSpace(got) != "web-"+nodeName {
			t.Errorf("%s says that its host name is %q", address, got)
		}
	}

	// and the command prints it: as a list for programs, and as a table for people
	var list v1.PodList
	if err := json.Unmarshal([]byte(n.must("get", "pods", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if list.Kind != "PodList" || len(list.Items) != 1 || !isRunning(list.Items[0]) || list.Items[0].Status.PodIP != p.Status.PodIP {
		t.Errorf("get pods -o json: %+v", list)
	}
	for _, c := range list.Items[0].Status.Conditions {
		if c.Status != v1.ConditionTrue {
			t.Errorf("condition %s is %s", c.Type, c.Status)
		}
	}
	table := n.must("get", "pods", "-o", "wide")
	if !strings.Contains(table, "web-"+nodeName) || !strings.Contains(table, "1/1") || !strings.Contains(table, p.Status.PodIP) {
		t.Errorf("get pods -o wide:\n%s", table)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	// given one pod that wrote a hundred lines, and one that goes on writing
	n := newNode(t)
	n.apply("talker.yaml", newPod("talker", "log", "100"))
	n.apply("counter.yaml", newPod("counter", "count"))
	n.start()
	pods := n.waitRunning("talker", "counter")

	// then the lines can be read
	n.wait("all lines of the log", 10*time.Second, func() string {
		if got := strings.Count(n.must("logs", "talker"), "\n"); got != 100 {
			return fmt.Sprintf("%d lines instead of 100", got)
		}
		return ""
	})
	if got := n.must("logs", "talker", "--tail", "2"); got != "line 99\nline 100\n" {
		t.Errorf("the last two lines are %q", got)
	}

	// when a container crashes, then the log of the one before is still there
	_, pid := n.container(ids(pods["counter"])["app"])
	kill(t, pid)
	p := n.waitPod("counter", "runs again", startLimit, func(p v1.Pod) string {
		if !isRunning(p) || app(p).RestartCount != 1 {
			return "a restart"
		}
		return ""
	})
	if last := app(p).LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
		t.Errorf("its last state is %+v", last)
	}
	if got := n.must("logs", "counter", "-p"); !strings.HasPrefix(got, "count 1\n") {
		t.Errorf("the log before the crash is %q", got)
	}

	// when somebody follows, then they see all until the end of the container
	followed := make(chan result, 1)
	go func() { followed <- n.berth("logs", "counter", "-f") }()
	n.wait("a few more lines", 10*time.Second, func() string {
		if !strings.Contains(n.must("logs", "counter"), "count 20\n") {
			return "line count 20"
		}
		return ""
	})
	n.remove("counter.yaml")
	got := <-followed
	if got.code != 0 || !strings.HasPrefix(got.out, "count 1\n") || !strings.Contains(got.out, "count 20\n") {
		t.Errorf("followed until the end: %s", got)
	}
}

func TestRestartsWithBackoff(t *testing.T) {
	t.Parallel()
	// given a container that ends with 1 after a moment
	n := newNode(t)
	n.apply("crasher.yaml", newPod("crasher", "exit", "1", "after", "500ms"))
	n.apply("failed.yaml", withPolicy(v1.RestartPolicyNever, newPod("failed", "exit", "3")))
	n.apply("done.yaml", withPolicy(v1.RestartPolicyOnFailure, newPod("done", "exit", "0")))
	n.start()

	// then it is restarted at once
	restarted := n.waitPod("crasher", "runs again", startLimit, func(p v1.Pod) string {
		if app(p).RestartCount != 1 || app(p).State.Running == nil {
			return "the first restart"
		}
		return ""
	})
	last := app(restarted).LastTerminationState.Terminated
	if last == nil || last.ExitCode != 1 || last.Reason != pod.ReasonError {
		t.Fatalf("its last state is %+v", last)
	}
	if gap := n.gap(restarted); gap > 3*time.Second {
		t.Errorf("the first restart came %s after the end", gap)
	}

	// and then has to wait for ten seconds
	waiting := n.waitPod("crasher", "waits", startLimit, func(p v1.Pod) string {
		if w := app(p).State.Waiting; w == nil || w.Reason != pod.ReasonCrashLoopBackOff {
			return pod.ReasonCrashLoopBackOff
		}
		return ""
	})
	if w := app(waiting); w.RestartCount != 1 || !strings.Contains(w.State.Waiting.Message, "10s") ||
		w.LastTerminationState.Terminated == nil || w.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("it waits as %s, its last state is %+v", summary(waiting), w.LastTerminationState.Terminated)
	}
	if waiting.Status.Phase != v1.PodRunning {
		t.Errorf("while it waits, its phase is %s", waiting.Status.Phase)
	}
	again := n.waitPod("crasher", "runs a third time", 30*time.Second, func(p v1.Pod) string {
		if app(p).RestartCount != 2 || app(p).State.Running == nil {
			return "the second restart"
		}
		return ""
	})
	if gap := n.gap(again); gap < 10*time.Second || gap > 14*time.Second {
		t.Errorf("the second restart came %s after the end, and not after 10s", gap)
	}

	// and others end for good, as their restart policy says
	pods := n.pods()
	if p := pods["failed"]; p.Status.Phase != v1.PodFailed || app(p).RestartCount != 0 || app(p).State.Terminated == nil || app(p).State.Terminated.ExitCode != 3 {
		t.Errorf("failed is %s", summary(p))
	}
	if p := pods["done"]; p.Status.Phase != v1.PodSucceeded || app(p).RestartCount != 0 {
		t.Errorf("done is %s", summary(p))
	}
}

func TestRemovedPodLeavesNothing(t *testing.T) {
	t.Parallel()
	// given two pods
	n := newNode(t)
	n.apply("keep.yaml", newPod("keep", "sleep"))
	n.apply("gone.yaml", newPod("gone", "sleep"))
	n.start()
	pods := n.waitRunning("keep", "gone")
	gone := pods["gone"]
	before := n.lives(map[string]v1.Pod{"keep": pods["keep"]})

	traces := func() []string {
		found := filter(walk(n, "/sys/fs/cgroup"), func(path string) bool { return strings.Contains(path, string(gone.UID)) })
		return append(found, filter(walk(n, n.root), func(path string) bool { return strings.Contains(path, string(gone.UID)) })...)
	}
	if len(traces()) == 0 {
		t.Fatal("a running pod leaves no trace: what is there to look for?")
	}

	// when one of them is removed
	n.remove("gone.yaml")
	n.waitGone("gone")

	// then nothing is left of it, and the other one did not notice
	if left := traces(); len(left) > 0 {
		t.Errorf("these are left: %v", left)
	}
	n.waitSettled("keep")
	if n := len(n.containers()); n != 1 {
		t.Errorf("the runtime has %d containers", n)
	}
	n.mustLiveOn(before)
}

func TestStartedAsKubelet(t *testing.T) {
	t.Parallel()
	// given berth under another name
	n := newNode(t)
	kubelet := filepath.Join(n.dir, "kubelet")
	if err := os.Symlink(n.program, kubelet); err != nil {
		t.Fatal(err)
	}
	berth := n.program
	n.apply("web.yaml", newPod("web", "sleep"))

	// when it is started as people start that one
	n.program = kubelet
	n.launch("--root-dir", n.root, "--pod-manifest-path", n.manifests, "--pod-cidr", n.podCIDR,
		"--config", n.config, "--hostname-override", nodeName, "--v", "2")
	n.program = berth
	n.awaitAgent()

	// then it is an agent like any other
	n.waitRunning("web")
}

func withPolicy(policy v1.RestartPolicy, p *v1.Pod) *v1.Pod {
	p.Spec.RestartPolicy = policy
	return p
}

// gap is the time between the start of a container and the end of the one before.
func (n *node) gap(p v1.Pod) time.Duration {
	n.t.Helper()
	_, before, _ := strings.Cut(app(p).LastTerminationState.Terminated.ContainerID, "://")
	last, _ := n.container(before)
	now, _ := n.container(ids(p)["app"])
	return time.Duration(now.StartedAt - last.FinishedAt)
}
