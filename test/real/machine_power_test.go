//go:build real && machine

package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/ociarchive"
)

// lasting is on a disk that is there after the machine was booted again. The tests
// below are run on the same one, in this order.
const lasting = "/berth/lasting"

// TestTheMachineGoesDown does not return: the machine is switched off under it. What
// came of that is seen by the next test, after the next boot.
func TestTheMachineGoesDown(t *testing.T) {
	// given an agent under systemd that wants half a minute for its pods, which logind
	// does not grant unless it is told to
	if err := os.MkdirAll(filepath.Join(lasting, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	n := nodeIn(t, lasting)
	n.configure("shutdownGracePeriod: 40s\nshutdownGracePeriodCriticalPods: 20s\n")
	n.drop("workload.tar", archive(t, workloadImage, ociarchive.Write))
	usual, critical := newPod("usual", "diary", "usual", "4s"), newPod("critical", "diary", "critical", "4s")
	for p, priority := range map[*v1.Pod]int32{usual: 0, critical: 2_000_000_000} {
		p.Spec.TerminationGracePeriodSeconds = new(int64(15))
		p.Spec.Priority = &priority
		p.Spec.Containers[0].Resources.Limits = amounts("cpu", "500m", "memory", "64Mi")
	}
	n.apply("pods.yaml", usual, critical)
	n.serve()
	before := n.waitRunning("usual", "critical")

	// when it is started anew, killed, and systemd reads all of its units again
	mustRun(t, "systemctl", "restart", "berth")
	mustRun(t, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "berth")
	mustRun(t, "systemctl", "daemon-reload")

	// then its pods do not notice
	n.wait("the agent to be back", startLimit, func() string {
		_, err := n.list()
		return boolText(err == nil && strings.TrimSpace(mustRun(t, "systemctl", "show", "--value", "--property=NRestarts", "berth")) == "1")
	})
	for name, p := range n.waitRunning("usual", "critical") {
		if app(p).ContainerID != app(before[name]).ContainerID || app(p).RestartCount != 0 {
			t.Errorf("%s is %s, before it was %s", name, summary(p), summary(before[name]))
		}
		if got := n.inCgroup("", "pod"+string(p.UID), "cpu.max"); got != "50000 100000" {
			t.Errorf("%s may use %s of a processor", name, got)
		}
	}
	if t.Failed() {
		return
	}

	// when the machine is switched off
	n.wait("systemd to know of the agent", startLimit, func() string {
		return boolText(strings.Contains(mustRun(t, "systemd-inhibit", "--list", "--no-pager"), "berth"))
	})
	mustRun(t, "systemctl", "poweroff")
	<-t.Context().Done() // with the process
}

// serve has systemd run the agent, by the unit that users have.
func (n *node) serve() {
	n.t.Helper()
	unit, err := os.ReadFile("../../packaging/berth.service")
	if err != nil {
		n.t.Fatal(err)
	}
	const units = "/run/systemd/system"
	if err := os.MkdirAll(units+"/berth.service.d", 0o755); err != nil {
		n.t.Fatal(err)
	}
	n.put(units+"/berth.service", unit)
	n.put(units+"/berth.service.d/test.conf", []byte("[Service]\nExecStart=\nExecStart="+n.program+" "+strings.Join(n.runArgs(), " ")+"\n"))
	mustRun(n.t, "systemctl", "daemon-reload")
	if limit := strings.TrimSpace(mustRun(n.t, "systemctl", "show", "--property", "StartLimitIntervalUSec", "--value", "berth")); limit != "0" {
		n.t.Errorf("systemd gives up if the agent ends too often within %s", limit)
	}
	mustRun(n.t, "systemctl", "start", "berth")
	n.wait("the agent to answer", startLimit, func() string {
		_, err := n.list()
		return boolText(err == nil)
	})
}

func TestTheMachineCameBack(t *testing.T) {
	n := nodeIn(t, lasting)

	// then the pods had their time, and the critical one ended after the other
	logs, err := filepath.Glob(filepath.Join(n.root, "log", "pods", "*", "app", "0.log"))
	if err != nil || len(logs) != 2 {
		t.Fatalf("there are the logs %v: %v", logs, err)
	}
	n.openLogs(logs...).read().mustBeInOrder("usual start", "usual term", "usual end", "critical term", "critical end")

	// when the agent is back, with nobody to ask
	began := time.Now()
	n.start()

	// then its pods are, too: that is a new start for them, no crash, and it is known that they ran before
	pods := n.waitRunning("usual", "critical")
	t.Logf("the pods ran %s after the agent was started", time.Since(began).Round(time.Millisecond))
	for _, p := range pods {
		if s := app(p); s.RestartCount != 0 || s.LastTerminationState.Terminated == nil {
			t.Errorf("%s has %d restarts, and its last end was %v", p.Name, s.RestartCount, s.LastTerminationState.Terminated)
		}
	}
}
