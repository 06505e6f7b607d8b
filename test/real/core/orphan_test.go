//go:build real

package core

import (
	"strings"
	"syscall"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/test/real/kit"
)

// orphanTimeout is how long an orphan may stay.
const orphanTimeout = 5 * time.Second

func TestOrphansAreEnded(t *testing.T) {
	t.Parallel()
	// given an agent with a pod of its own
	n := kit.NewNode(t)
	n.Apply("web.yaml", kit.NewPod("web", "sleep"))
	n.Start()
	own := n.WaitRunning("web")
	before := n.Instances(own)
	settled := len(leftovers(n))

	gone := func(since time.Time) {
		t.Helper()
		n.Wait("the orphan to be gone", orphanTimeout, func() string {
			left := leftovers(n)
			if len(left) > settled {
				return strings.Join(left, "\n\t")
			}
			return ""
		})
		t.Logf("gone after %s", time.Since(since).Round(time.Millisecond))
		n.MustKeepInstances(before)
	}

	// when another one is made in the runtime, past the agent (which looks
	// away, or else it would be gone before it is complete)
	uid := "00000000-dead-beef-0000-000000000001"
	signal(n, syscall.SIGSTOP)
	orphan := n.CreateRuntimePod("orphan", kit.PodLabels("orphan", uid), "activity", "orphan", "300ms")
	log := n.OpenActivityLogFiles(orphan.LogFile())
	n.Wait("its container to be up", 10*time.Second, func() string {
		_, up := log.Read().Find("orphan", "start")
		return kit.MissingUnless(up)
	})
	signal(n, syscall.SIGCONT)

	// then it is gone soon, and was given time to end
	gone(time.Now())
	log.WaitInOrder("orphan start", "orphan term", "orphan end")

	// when that happens while no agent runs, then likewise
	n.KillAgent()
	orphan = n.CreateRuntimePod("orphan", kit.PodLabels("orphan", uid), "activity", "orphan", "0s")
	log = n.OpenActivityLogFiles(orphan.LogFile())
	n.Start()
	gone(time.Now())
	log.WaitInOrder("orphan start", "orphan term")

	// when it is nothing but a sandbox, then likewise
	n.CreateSandbox("empty", kit.PodLabels("empty", "00000000-dead-beef-0000-000000000002"))
	gone(time.Now())

	// but what is not a pod's is left alone
	other := n.CreateRuntimePod("other", nil, "sleep")
	n.Apply("more.yaml", kit.NewPod("more", "sleep"))
	n.WaitRunning("more")
	if status, _ := n.Container(other.Container); status.State != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("what somebody else runs is %s", status.State)
	}
	if err := n.RemoveRuntimePod(other); err != nil {
		t.Fatal(err)
	}
}

// signal sends a signal to the agent.
func signal(n *kit.Node, s syscall.Signal) {
	n.T.Helper()
	if err := n.Agent.Cmd.Process.Signal(s); err != nil {
		n.T.Fatal(err)
	}
}
