//go:build real

package runtime

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/fixture"
	"berth/test/real/kit"
)

// A container runtime that hangs, and does not die.

// freeze lets the runtime of the node stand still until the returned function is called,
// at the latest when the test ends.
func freeze(n *kit.Node) (thaw func()) {
	n.T.Helper()
	pid := n.ContainerdPID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		n.T.Fatal(err)
	}
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) } // it may have been killed
	n.T.Cleanup(thaw)
	return thaw
}

func waitNotReady(n *kit.Node, limit time.Duration, says string) {
	n.T.Helper()
	n.Wait("the node to say "+says, limit, func() string {
		if why := n.NotReadyReason(); !strings.Contains(why, says) {
			return "not " + why
		}
		return ""
	})
}

// execProbed is a pod whose every probe is a command that has to answer once a second.
func execProbed(name string) *v1.Pod {
	p := kit.NewPod(name, "moody", ":8080")
	c := &p.Spec.Containers[0]
	c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = kit.ProbeEachSecond(kit.ExecGet(8080)), kit.ProbeEachSecond(kit.ExecGet(8080)), kit.ProbeEachSecond(kit.ExecGet(8080))
	c.StartupProbe.FailureThreshold = 30
	return p
}

func TestARuntimeThatStandsStillFailsNoProbe(t *testing.T) {
	t.Parallel()
	// given pods whose lives depend on commands, and calls that are soon given up
	n := kit.NewNode(t)
	n.Configure("runtimeRequestTimeout: 10s\n")
	n.Apply("pods.yaml", execProbed("one"), execProbed("two"), kit.NewPod("plain", "serve", ":8080"))
	n.Start()
	pods := n.WaitRunning("one", "two", "plain")
	before := n.Instances(pods)
	seen := n.Watch()

	// when the runtime stands still for longer than all of them wait for an answer
	thaw := freeze(n)
	for _, name := range []string{"one", "two"} {
		n.Wait("the probes of "+name+" to be without an answer", kit.StartTimeout, func() string {
			for _, e := range n.Events(pods[name]) {
				if strings.Contains(e.Message, "unknown state") && strings.Contains(e.Message, "the container runtime does not answer") {
					return ""
				}
			}
			return "the event"
		})
	}

	// then the command line answers meanwhile, with what is known or with an error
	waitNotReady(n, kit.StartTimeout, "have not answered for ")
	if out := n.MustBerth("get", "pods"); !strings.Contains(out, "one-node") {
		t.Errorf("get pods:\n%s", out)
	}
	n.MustBerth("logs", "plain")
	n.ExpectBerth("", []string{"exec", "plain", "--", "/workload", "ask", "http://127.0.0.1:8080/"}, 1, "", "DeadlineExceeded")

	// when it goes on, then nothing was restarted, and no pod was ever unready
	thaw()
	n.Wait("the node to be ready", kit.StartTimeout, n.NotReadyReason)
	n.ExpectBerth("", []string{"exec", "plain", "--", "/workload", "exit", "42"}, 42, "", "")
	n.Apply("later.yaml", execProbed("later"))
	n.WaitRunning("one", "two", "plain", "later")
	n.MustKeepInstances(before)
	for _, name := range []string{"one", "two"} {
		for _, p := range seen.States(name) {
			if !kit.IsReady(p) {
				t.Errorf("%s was not ready: %s", name, kit.Summary(p))
			}
		}
	}
}

func TestAnAgentThatStartsWhileTheRuntimeStandsStill(t *testing.T) {
	t.Parallel()
	// given pods, a runtime that stands still, and no agent
	n := kit.NewNode(t)
	n.Apply("web.yaml", kit.NewPod("web", "serve", ":8080"))
	n.Start()
	before := n.Instances(n.WaitRunning("web"))
	n.Stop()
	thaw := freeze(n)

	// when one is started, then it answers, and says what it does not know
	n.Apply("later.yaml", kit.NewPod("later", "serve", ":8080"))
	n.StartWithoutRuntime()
	for _, name := range []string{"web", "later"} {
		n.WaitPod(name, "is not known", kit.StartTimeout, func(p v1.Pod) string {
			return kit.MissingUnless(p.Status.Phase == v1.PodUnknown && p.Status.Reason == "ContainerRuntimeNotReady")
		})
	}
	waitNotReady(n, kit.StartTimeout, "not answered for ")
	if got := n.Berth("doctor"); !strings.Contains(got.Out, "CHECK") {
		t.Errorf("doctor: %s", got)
	}
	n.Stop() // also that is done in time
	n.StartWithoutRuntime()

	// when the runtime goes on, then the pods do, too
	thaw()
	n.WaitRunning("web", "later")
	n.MustKeepInstances(before)
	n.Wait("the node to be ready", kit.StartTimeout, n.NotReadyReason)
}

func TestOurRuntimeIsReplacedWhenItHangs(t *testing.T) {
	t.Parallel()
	// given an agent with short timeouts, and pods
	n := kit.NewNode(t)
	n.Apply("pods.yaml", execProbed("one"), kit.NewPod("plain", "serve", ":8080"))
	n.Start("--runtime-silence-limit", "10s")
	before := n.Instances(n.WaitRunning("one", "plain"))

	// when the runtime stands still, then it is killed, and another one goes on with the pods
	old := n.ContainerdPID()
	freeze(n)
	n.Wait("another containerd", kit.StartTimeout, func() string { return kit.MissingUnless(n.ContainerdPID() != old) })
	n.Apply("later.yaml", kit.NewPod("later", "serve", ":8080"))
	n.WaitRunning("one", "plain", "later")
	n.MustKeepInstances(before)

	// and so by an agent that was started meanwhile
	n.KillAgent()
	old = n.ContainerdPID()
	freeze(n)
	n.Start("--runtime-silence-limit", "10s")
	n.Wait("another containerd", kit.StartTimeout, func() string { return kit.MissingUnless(n.ContainerdPID() != old) })
	n.WaitRunning("one", "plain", "later")
	n.MustKeepInstances(before)
}

func TestACallThatIsNeverAnsweredIsNamed(t *testing.T) {
	t.Parallel()
	// given the containerd of another root, behind a proxy that holds one kind of call
	other := kit.NewNode(t)
	other.Start()
	other.Stop()
	socket := filepath.Join(other.Dir, "proxy.sock")
	proxy := fixture.NewCRIProxy(t, socket, other.Socket)
	n := kit.NewNode(t)
	n.Socket = other.Socket
	release := proxy.Hold("ListContainers")
	t.Cleanup(release)

	// when an agent is given that, then it answers, and says which call hangs
	n.Apply("web.yaml", kit.NewPod("web", "serve", ":8080"))
	n.Start("--container-runtime-endpoint", "unix://"+socket)
	if why := n.NotReadyReason(); why != "" {
		t.Errorf("it is not ready too early: %s", why)
	}
	n.WaitPod("web", "is not known", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(p.Status.Phase == v1.PodUnknown) })
	waitNotReady(n, 2*time.Minute, "container runtime not ready: ListContainers has not answered for 1m0s")

	// when it is answered, then the node is ready and the pod runs
	release()
	n.WaitRunning("web")
	n.Wait("the node to be ready", kit.StartTimeout, n.NotReadyReason)

	// when calls of one pod hang, then the others and the node do not care
	release = proxy.Hold("StopPodSandbox", "StopContainer")
	t.Cleanup(release)
	n.RemoveManifest("web.yaml")
	n.Apply("next.yaml", kit.NewPod("next", "serve", ":8081"))
	n.WaitRunning("next")
	if why := n.NotReadyReason(); why != "" {
		t.Errorf("it is not ready: %s", why)
	}
	release()
	n.WaitGone("web")
}

// warmedUp is a pod with a postStart hook, both of which write to the log of its container.
func warmedUp(name string) *v1.Pod {
	p := kit.NewPod(name, "activity", "app", "0s")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: kit.ExecHook("hook", "hook", "100ms", "0")}
	return p
}

func TestAPostStartHookOfAHungRuntimeIsRunAgain(t *testing.T) {
	t.Parallel()
	// given the containerd of another root, behind a proxy, and calls that are soon given up
	other := kit.NewNode(t)
	other.Start()
	other.Stop()
	socket := filepath.Join(other.Dir, "proxy.sock")
	proxy := fixture.NewCRIProxy(t, socket, other.Socket)
	n := kit.NewNode(t)
	n.Configure("runtimeRequestTimeout: 5s\n")
	n.Socket = other.Socket
	n.Start("--container-runtime-endpoint", "unix://"+socket)

	// when commands are not answered, then their containers wait, and nothing is stopped
	waits := func(name string) string {
		t.Helper()
		id := ""
		n.WaitPod(name, "waits for its hook", kit.StartTimeout, func(p v1.Pod) string {
			c := kit.AppStatus(p)
			if c.State.Waiting == nil || !strings.Contains(c.State.Waiting.Message, "the container runtime does not answer") {
				return kit.Summary(p)
			}
			id = c.ContainerID
			return kit.MissingUnless(id != "")
		})
		return id
	}
	mustBe := func(name, id string) {
		t.Helper()
		p := n.WaitRunning(name)[name]
		if c := kit.AppStatus(p); c.ContainerID != id || c.RestartCount != 0 {
			t.Errorf("%s is another container than %s: %+v", name, id, c)
		}
		n.OpenActivityLogs(p).WaitInOrder("app start", "hook start", "hook end")
		for _, e := range n.Events(p) {
			if e.Type != v1.EventTypeNormal {
				t.Errorf("%s: %s: %s", name, e.Reason, e.Message)
			}
		}
	}
	release := proxy.Hold("ExecSync", "Version")
	t.Cleanup(release)
	n.Apply("warm.yaml", warmedUp("warm"))
	n.Apply("leaves.yaml", warmedUp("leaves"))
	warm := waits("warm")
	waits("leaves")

	// and a pod can go meanwhile
	n.RemoveManifest("leaves.yaml")
	n.WaitGone("leaves")

	// when they are, then the hook is run in the same container
	release()
	mustBe("warm", warm)

	// and so by an agent that was started meanwhile
	release = proxy.Hold("ExecSync", "Version")
	t.Cleanup(release)
	n.Apply("later.yaml", warmedUp("later"))
	later := waits("later")
	n.KillAgent()
	release()
	n.Start("--container-runtime-endpoint", "unix://"+socket)
	mustBe("later", later)
	mustBe("warm", warm)
}
