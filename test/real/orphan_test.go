//go:build real

package real

import (
	"strings"
	"syscall"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// orphanLimit is how long a pod that nobody wants may stay.
const orphanLimit = 5 * time.Second

func TestOrphansAreEnded(t *testing.T) {
	t.Parallel()
	// given an agent with a pod of its own
	n := newNode(t)
	n.apply("web.yaml", newPod("web", "sleep"))
	n.start()
	own := n.waitRunning("web")
	before := n.lives(own)
	settled := len(n.leftovers())

	gone := func(since time.Time) {
		t.Helper()
		n.wait("the orphan to be gone", orphanLimit, func() string {
			left := n.leftovers()
			if len(left) > settled {
				return strings.Join(left, "\n\t")
			}
			return ""
		})
		t.Logf("gone after %s", time.Since(since).Round(time.Millisecond))
		n.mustLiveOn(before)
	}

	// when somebody makes another one in the runtime, past the agent (which looks
	// away, or else it would be gone before it is complete)
	uid := "00000000-dead-beef-0000-000000000001"
	n.signal(syscall.SIGSTOP)
	orphan := n.makeByHand("orphan", podLabels("orphan", uid), "diary", "orphan", "300ms")
	log := n.openLogs(orphan.log())
	n.wait("its container to be up", 10*time.Second, func() string {
		_, up := log.read().find("orphan", "start")
		return boolText(up)
	})
	n.signal(syscall.SIGCONT)

	// then it is gone soon, and was given time to end
	gone(time.Now())
	log.until("orphan start", "orphan term", "orphan end")

	// when that happens while no agent runs, then likewise
	n.crash()
	orphan = n.makeByHand("orphan", podLabels("orphan", uid), "diary", "orphan", "0s")
	log = n.openLogs(orphan.log())
	n.start()
	gone(time.Now())
	log.until("orphan start", "orphan term")

	// when it is nothing but a sandbox, then likewise
	n.sandboxByHand("empty", podLabels("empty", "00000000-dead-beef-0000-000000000002"))
	gone(time.Now())

	// but what is not a pod's is left alone
	other := n.makeByHand("other", nil, "sleep")
	n.apply("more.yaml", newPod("more", "sleep"))
	n.waitRunning("more")
	if status, _ := n.container(other.container); status.State != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("what somebody else runs is %s", status.State)
	}
	if err := n.removeByHand(other); err != nil {
		t.Fatal(err)
	}
}

// signal tells the agent's process something.
func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.agent.cmd.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}
