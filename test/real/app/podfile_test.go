//go:build real

package app

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

// peakMiB is the most memory that the agent has used so far.
func peakMiB(n *kit.Node) int {
	n.T.Helper()
	_, peak, _ := strings.Cut(n.AgentProc("status"), "\nVmHWM:")
	return n.Atoi(strings.Fields(peak)[0]) >> 10
}

func TestFilesThatAContainerMakesHugeDoNotHurtTheAgent(t *testing.T) {
	t.Parallel()
	// given a container that makes its hosts file and its termination message 10 TB large,
	// and fails
	n := kit.NewNode(t)
	n.Configure("crashLoopBackOff:\n  maxContainerRestartPeriod: 1s\n")
	const tenTB = 10 << 40
	p := kit.NewPod("swells", "swell", strconv.Itoa(tenTB), "1", "/etc/hosts", "/dev/termination-log")
	p.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	n.Apply("swells.yaml", p)
	n.Start()
	agent := n.Agent.Cmd.Process.Pid
	before := peakMiB(n)

	// then it is restarted, again and again
	const restarts = 3
	swells := n.WaitPod("swells", "is restarted", 2*time.Minute, func(p v1.Pod) string { return kit.MissingUnless(kit.AppStatus(p).RestartCount >= restarts) })
	if last := kit.AppStatus(swells).LastTerminationState.Terminated; last == nil || last.ExitCode != 1 || len(last.Message) != 4096 {
		t.Errorf("its last state is %+v", last)
	}
	// by the same agent, which did not read what is not there
	select {
	case <-n.Agent.Ended:
		t.Fatalf("the agent ended: %s", n.Agent.Cmd.ProcessState)
	default:
	}
	if peak := peakMiB(n); n.Agent.Cmd.Process.Pid != agent || peak > before+100 {
		t.Errorf("the agent used %d MiB, and %d before", peak, before)
	}
	// and the files of lives that are over go
	files, err := os.ReadDir(filepath.Join(n.Root, "pods", string(swells.UID), "containers", "app"))
	if err != nil || len(files) > 2 {
		t.Errorf("%d files are left: %v, %v", len(files), files, err)
	}

	// when the agent is started again, then it goes on
	n.KillAgent()
	n.Start()
	n.WaitPod("swells", "is restarted", 2*time.Minute, func(p v1.Pod) string {
		return kit.MissingUnless(kit.AppStatus(p).RestartCount > kit.AppStatus(swells).RestartCount)
	})
}
