//go:build real

package core

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

func TestRuntimeKilledUnderLoad(t *testing.T) {
	t.Parallel()
	// given pods that run, and more that are being started
	n := kit.NewNode(t)
	old, names := kit.NumberedPods("old", 4, "sleep")
	n.Apply("old.yaml", old...)
	n.Start()
	n.WaitRunning(names...)
	fresh, more := kit.NumberedPods("new", 10, "sleep")
	n.Apply("new.yaml", fresh...)
	n.WaitRunning(more[0])
	before := n.Instances(running(n.Pods()))
	pid := n.ContainerdPID()

	// when the runtime is killed
	kit.KillProcess(t, pid)

	// then another one takes over, and all pods run
	names = append(names, more...)
	n.Wait("another containerd", kit.StartTimeout, func() string { return kit.MissingUnless(n.ContainerdPID() != pid) })
	n.WaitRunning(names...)
	pods := n.WaitSettled(names...)

	// and those that ran were left alone
	t.Logf("%d containers ran when the runtime was killed", len(before))
	n.MustKeepInstances(before)
	for name, p := range pods {
		if restarts := kit.AppStatus(p).RestartCount; restarts != 0 {
			t.Errorf("%s was restarted %d times", name, restarts)
		}
	}
	mustHaveNoNetworkLeft(n, len(names))
}

func TestAgentKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.Start()
	var names []string
	before := map[string]kit.ContainerInstance{}

	for round, after := range []time.Duration{50, 200, 500, 800} {
		// given a burst of pods that has just begun
		pods, more := kit.NumberedPods(fmt.Sprintf("r%d", round), 8, "sleep")
		names = append(names, more...)
		n.Apply(fmt.Sprintf("r%d.yaml", round), pods...)

		// when the agent is killed in the middle of it
		<-time.After(after * time.Millisecond)
		maps.Copy(before, n.Instances(running(n.Pods())))
		n.KillAgent()
		began := time.Now()
		n.Start()

		// then all pods run, and there is nothing else
		settled := n.WaitSettled(names...)
		t.Logf("killed after %d ms: all is well %s later", after, time.Since(began).Round(time.Millisecond))
		for name, p := range settled {
			if restarts := kit.AppStatus(p).RestartCount; restarts != 0 {
				t.Errorf("killed after %d ms: %s was restarted %d times", after, name, restarts)
			}
		}
		// and those that ran before were left alone
		n.MustKeepInstances(before)
		if t.Failed() {
			return
		}
		before = n.Instances(settled)
	}
	mustHaveNoNetworkLeft(n, len(names))

	// when it ends at a signal, and is started again, likewise
	n.Stop()
	n.Start()
	n.WaitSettled(names...)
	n.MustKeepInstances(before)

	// when the runtime is killed with it, likewise
	n.KillAgent()
	kit.KillProcess(t, n.ContainerdPID())
	n.Start()
	n.WaitSettled(names...)
	n.MustKeepInstances(before)
}

// mustHaveNoNetworkLeft fails the test unless each pod has one address and one veth pair.
func mustHaveNoNetworkLeft(n *kit.Node, pods int) {
	n.T.Helper()
	plugs := kit.Lines(n.MustRun(n.T, "ip", "-oneline", "link", "show", "type", "veth"))
	if len(plugs) != pods {
		n.T.Errorf("%d pods have %d links: %s", pods, len(plugs), strings.Join(plugs, "\n"))
	}
	if reserved := addresses(n); len(reserved) != pods {
		n.T.Errorf("%d pods have %d addresses: %v", pods, len(reserved), reserved)
	}
}

// running are the pods that run.
func running(pods map[string]v1.Pod) map[string]v1.Pod {
	maps.DeleteFunc(pods, func(_ string, p v1.Pod) bool { return !kit.IsRunning(p) })
	return pods
}
