//go:build real

package real

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// peakMiB is the most memory that the agent has used so far.
func (n *node) peakMiB() int {
	n.t.Helper()
	_, peak, _ := strings.Cut(n.ofAgent("status"), "\nVmHWM:")
	return n.number(strings.Fields(peak)[0]) >> 10
}

func TestFilesThatAContainerMakesHugeDoNotHurtTheAgent(t *testing.T) {
	t.Parallel()
	// given a container that makes its hosts file and its termination message 10 TB large,
	// and fails
	n := newNode(t)
	n.configure("crashLoopBackOff:\n  maxContainerRestartPeriod: 1s\n")
	const tenTB = 10 << 40
	p := newPod("swells", "swell", strconv.Itoa(tenTB), "1", "/etc/hosts", "/dev/termination-log")
	p.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	n.apply("swells.yaml", p)
	n.start()
	agent := n.agent.cmd.Process.Pid
	before := n.peakMiB()

	// then it is restarted, again and again
	const restarts = 3
	swells := n.waitPod("swells", "is restarted", 2*time.Minute, func(p v1.Pod) string { return boolText(app(p).RestartCount >= restarts) })
	if last := app(swells).LastTerminationState.Terminated; last == nil || last.ExitCode != 1 || len(last.Message) != 4096 {
		t.Errorf("its last state is %+v", last)
	}
	// by the same agent, which did not read what is not there
	select {
	case <-n.agent.ended:
		t.Fatalf("the agent ended: %s", n.agent.cmd.ProcessState)
	default:
	}
	if peak := n.peakMiB(); n.agent.cmd.Process.Pid != agent || peak > before+100 {
		t.Errorf("the agent used %d MiB, and %d before", peak, before)
	}
	// and the files of lives that are over go
	files, err := os.ReadDir(filepath.Join(n.root, "pods", string(swells.UID), "containers", "app"))
	if err != nil || len(files) > 2 {
		t.Errorf("%d files are left: %v, %v", len(files), files, err)
	}

	// when the agent is started again, then it goes on
	n.crash()
	n.start()
	n.waitPod("swells", "is restarted", 2*time.Minute, func(p v1.Pod) string { return boolText(app(p).RestartCount > app(swells).RestartCount) })
}
