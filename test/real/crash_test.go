//go:build real

package real

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestRuntimeKilledUnderLoad(t *testing.T) {
	t.Parallel()
	// given pods that run, and more that are being started
	n := newNode(t)
	old, names := numbered("old", 4, "sleep")
	n.apply("old.yaml", old...)
	n.start()
	n.waitRunning(names...)
	fresh, more := numbered("new", 10, "sleep")
	n.apply("new.yaml", fresh...)
	n.waitRunning(more[0])
	before := n.lives(running(n.pods()))
	pid := n.containerdPID()

	// when the runtime is killed
	kill(t, pid)

	// then another one takes over, and all pods run
	names = append(names, more...)
	n.wait("another containerd", startLimit, func() string { return boolText(n.containerdPID() != pid) })
	n.waitRunning(names...)
	pods := n.waitSettled(names...)

	// and those that ran were left alone
	t.Logf("%d containers ran when the runtime was killed", len(before))
	n.mustLiveOn(before)
	for name, p := range pods {
		if restarts := app(p).RestartCount; restarts != 0 {
			t.Errorf("%s was restarted %d times", name, restarts)
		}
	}
	n.mustHaveNoNetworkLeft(len(names))
}

func TestAgentKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	var names []string
	before := map[string]life{}

	for round, after := range []time.Duration{50, 200, 500, 800} {
		// given a burst of pods that has just begun
		pods, more := numbered(fmt.Sprintf("r%d", round), 8, "sleep")
		names = append(names, more...)
		n.apply(fmt.Sprintf("r%d.yaml", round), pods...)

		// when the agent is killed in the middle of it
		<-time.After(after * time.Millisecond)
		maps.Copy(before, n.lives(running(n.pods())))
		n.crash()
		began := time.Now()
		n.start()

		// then all pods run, and there is nothing else
		settled := n.waitSettled(names...)
		t.Logf("killed after %d ms: all is well %s later", after, time.Since(began).Round(time.Millisecond))
		for name, p := range settled {
			if restarts := app(p).RestartCount; restarts != 0 {
				t.Errorf("killed after %d ms: %s was restarted %d times", after, name, restarts)
			}
		}
		// and those that ran before were left alone
		n.mustLiveOn(before)
		if t.Failed() {
			return
		}
		before = n.lives(settled)
	}
	n.mustHaveNoNetworkLeft(len(names))

	// when it is told to end, and started again, likewise
	n.stop()
	n.start()
	n.waitSettled(names...)
	n.mustLiveOn(before)

	// when the runtime is killed with it, likewise
	n.crash()
	kill(t, n.containerdPID())
	n.start()
	n.waitSettled(names...)
	n.mustLiveOn(before)
}

// mustHaveNoNetworkLeft counts what every pod has one of.
func (n *node) mustHaveNoNetworkLeft(pods int) {
	n.t.Helper()
	plugs := lines(n.mustRun(n.t, "ip", "-oneline", "link", "show", "type", "veth"))
	if len(plugs) != pods {
		n.t.Errorf("%d pods have %d links: %s", pods, len(plugs), strings.Join(plugs, "\n"))
	}
	addresses := filter(walk(n, filepath.Join(n.root, "cni", "ipam")), func(path string) bool {
		return net.ParseIP(filepath.Base(path)) != nil
	})
	if len(addresses) != pods {
		n.t.Errorf("%d pods have %d addresses: %v", pods, len(addresses), addresses)
	}
}

// running are those of the pods that run.
func running(pods map[string]v1.Pod) map[string]v1.Pod {
	maps.DeleteFunc(pods, func(_ string, p v1.Pod) bool { return !isRunning(p) })
	return pods
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
