//go:build real && machine

package core

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/ociarchive"
	"berth/test/real/kit"
)

// lasting is on a disk that is there after the machine was booted again. The tests
// below are run on the same one, in this order.
const lasting = "/berth/lasting"

// TestTheMachineGoesDown does not return: the machine is switched off under it. What
// came of that is seen by the next test, after the next boot.
func TestTheMachineGoesDown(t *testing.T) {
	// given an agent under systemd that wants half a minute for its pods, which logind
	// does not grant by default
	if err := os.MkdirAll(filepath.Join(lasting, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	n := kit.NodeIn(t, lasting)
	n.Configure("shutdownGracePeriod: 40s\nshutdownGracePeriodCriticalPods: 20s\n")
	n.AddImage("workload.tar", kit.WorkloadArchive(t, kit.WorkloadImage, ociarchive.Write))
	usual, critical := kit.NewPod("usual", "activity", "usual", "4s"), kit.NewPod("critical", "activity", "critical", "4s")
	for p, priority := range map[*v1.Pod]int32{usual: 0, critical: 2_000_000_000} {
		p.Spec.TerminationGracePeriodSeconds = new(int64(15))
		p.Spec.Priority = &priority
		p.Spec.Containers[0].Resources.Limits = kit.ResourceList("cpu", "500m", "memory", "64Mi")
	}
	n.Apply("pods.yaml", usual, critical)
	serve(n)
	before := n.WaitRunning("usual", "critical")

	// when it is started anew, killed, and systemd reads all of its units again
	kit.MustRun(t, "systemctl", "restart", "berth")
	kit.MustRun(t, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "berth")
	kit.MustRun(t, "systemctl", "daemon-reload")

	// then its pods do not notice
	n.Wait("the agent to be back", kit.StartTimeout, func() string {
		_, err := n.List()
		return kit.MissingUnless(err == nil && strings.TrimSpace(kit.MustRun(t, "systemctl", "show", "--value", "--property=NRestarts", "berth")) == "1")
	})
	for name, p := range n.WaitRunning("usual", "critical") {
		if kit.AppStatus(p).ContainerID != kit.AppStatus(before[name]).ContainerID || kit.AppStatus(p).RestartCount != 0 {
			t.Errorf("%s is %s, before it was %s", name, kit.Summary(p), kit.Summary(before[name]))
		}
		if got := n.ReadCgroup("", "pod"+string(p.UID), "cpu.max"); got != "50000 100000" {
			t.Errorf("%s may use %s of a processor", name, got)
		}
	}
	if t.Failed() {
		return
	}

	// when the machine is switched off
	n.Wait("systemd to know of the agent", kit.StartTimeout, func() string {
		return kit.MissingUnless(strings.Contains(kit.MustRun(t, "systemd-inhibit", "--list", "--no-pager"), "berth"))
	})
	kit.MustRun(t, "systemctl", "poweroff")
	<-t.Context().Done() // with the process
}

// serve has systemd run the agent, by the unit that users have.
func serve(n *kit.Node) {
	n.T.Helper()
	unit, err := os.ReadFile("../../../packaging/berth.service")
	if err != nil {
		n.T.Fatal(err)
	}
	const units = "/run/systemd/system"
	if err := os.MkdirAll(units+"/berth.service.d", 0o755); err != nil {
		n.T.Fatal(err)
	}
	n.ReplaceFile(units+"/berth.service", unit)
	n.ReplaceFile(units+"/berth.service.d/test.conf", []byte("[Service]\nExecStart=\nExecStart="+n.Program+" "+strings.Join(n.RunArgs(), " ")+"\n"))
	kit.MustRun(n.T, "systemctl", "daemon-reload")
	if limit := strings.TrimSpace(kit.MustRun(n.T, "systemctl", "show", "--property", "StartLimitIntervalUSec", "--value", "berth")); limit != "0" {
		n.T.Errorf("systemd gives up if the agent ends too often within %s", limit)
	}
	kit.MustRun(n.T, "systemctl", "start", "berth")
	n.Wait("the agent to answer", kit.StartTimeout, func() string {
		_, err := n.List()
		return kit.MissingUnless(err == nil)
	})
}

func TestTheMachineCameBack(t *testing.T) {
	n := kit.NodeIn(t, lasting)

	// then the pods had their time, and the critical one ended after the other
	logs, err := filepath.Glob(filepath.Join(n.Root, "log", "pods", "*", "app", "0.log"))
	if err != nil || len(logs) != 2 {
		t.Fatalf("there are the logs %v: %v", logs, err)
	}
	n.OpenActivityLogFiles(logs...).Read().MustBeInOrder("usual start", "usual term", "usual end", "critical term", "critical end")

	// when the agent is started again
	began := time.Now()
	n.Start()

	// then its pods are, too: that is a new start for them, no crash, and it is known that they ran before
	pods := n.WaitRunning("usual", "critical")
	t.Logf("the pods ran %s after the agent was started", time.Since(began).Round(time.Millisecond))
	for _, p := range pods {
		if s := kit.AppStatus(p); s.RestartCount != 0 || s.LastTerminationState.Terminated == nil {
			t.Errorf("%s has %d restarts, and its last end was %v", p.Name, s.RestartCount, s.LastTerminationState.Terminated)
		}
	}
}
