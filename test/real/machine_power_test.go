//go:build real && machine

package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/ociarchive"
)

// lasting is on a disk that is there after the machine was booted again. The tests
// below are run on the same one, in this order.
const lasting = "/berth/lasting"

// TestTheMachineGoesDown does not return: the machine is switched off under it. What
// came of that is seen by the next test, after the next boot.
func TestTheMachineGoesDown(t *testing.T) {
	// given an agent that wants half a minute for its pods, which logind does not grant
	// unless it is told to
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
	}
	n.apply("pods.yaml", usual, critical)
	n.start()
	n.waitRunning("usual", "critical")
	n.wait("systemd to know of the agent", startLimit, func() string {
		return boolText(strings.Contains(mustRun(t, "systemd-inhibit", "--list", "--no-pager"), "berth"))
	})

	// when the machine is switched off
	mustRun(t, "systemctl", "poweroff")
	<-t.Context().Done() // with the process
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

	// then its pods are, too, and it is known that they ran before
	pods := n.waitRunning("usual", "critical")
	t.Logf("the pods ran %s after the agent was started", time.Since(began).Round(time.Millisecond))
	for _, p := range pods {
		if app(p).RestartCount != 1 {
			t.Errorf("%s has %d restarts", p.Name, app(p).RestartCount)
		}
	}
}
