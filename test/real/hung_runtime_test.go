//go:build real

package real

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/fixture"
)

// A container runtime that hangs, and does not die.

// freeze lets the runtime of the node stand still until the returned function is called,
// at the latest when the test ends.
func (n *node) freeze() (thaw func()) {
	n.t.Helper()
	pid := n.containerdPID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		n.t.Fatal(err)
	}
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) } // it may have been killed
	n.t.Cleanup(thaw)
	return thaw
}

func (n *node) waitNotReady(limit time.Duration, says string) {
	n.t.Helper()
	n.wait("the node to say "+says, limit, func() string {
		if why := n.whyNotReady(); !strings.Contains(why, says) {
			return "not " + why
		}
		return ""
	})
}

// execProbed is a pod whose every probe is a command that has to answer once a second.
func execProbed(name string) *v1.Pod {
	p := newPod(name, "moody", ":8080")
	c := &p.Spec.Containers[0]
	c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = every(execAsk(8080)), every(execAsk(8080)), every(execAsk(8080))
	c.StartupProbe.FailureThreshold = 30
	return p
}

func TestARuntimeThatStandsStillFailsNoProbe(t *testing.T) {
	t.Parallel()
	// given pods whose lives depend on commands, and calls that are soon given up
	n := newNode(t)
	n.configure("runtimeRequestTimeout: 10s\n")
	n.apply("pods.yaml", execProbed("one"), execProbed("two"), newPod("plain", "serve", ":8080"))
	n.start()
	pods := n.waitRunning("one", "two", "plain")
	before := n.lives(pods)
	seen := n.watch()

	// when the runtime stands still for longer than all of them wait for an answer
	thaw := n.freeze()
	for _, name := range []string{"one", "two"} {
		n.wait("the probes of "+name+" to be without an answer", startLimit, func() string {
			for _, e := range n.eventsOf(pods[name]) {
				if strings.Contains(e.Message, "unknown state") && strings.Contains(e.Message, "the container runtime does not answer") {
					return ""
				}
			}
			return "the event"
		})
	}

	// then the command line answers meanwhile, with what is known or with an error
	n.waitNotReady(startLimit, "have not answered for ")
	if out := n.must("get", "pods"); !strings.Contains(out, "one-node") {
		t.Errorf("get pods:\n%s", out)
	}
	n.must("logs", "plain")
	n.wantTyped("", []string{"exec", "plain", "--", "/workload", "ask", "http://127.0.0.1:8080/"}, 1, "", "DeadlineExceeded")

	// when it goes on, then nothing was restarted, and nobody was ever unready
	thaw()
	n.wait("the node to be ready", startLimit, n.whyNotReady)
	n.wantTyped("", []string{"exec", "plain", "--", "/workload", "exit", "42"}, 42, "", "")
	n.apply("later.yaml", execProbed("later"))
	n.waitRunning("one", "two", "plain", "later")
	n.mustLiveOn(before)
	for _, name := range []string{"one", "two"} {
		for _, p := range seen.states(name) {
			if !ready(p) {
				t.Errorf("%s was not ready: %s", name, summary(p))
			}
		}
	}
}

func TestAnAgentThatStartsWhileTheRuntimeStandsStill(t *testing.T) {
	t.Parallel()
	// given pods, a runtime that stands still, and no agent
	n := newNode(t)
	n.apply("web.yaml", newPod("web", "serve", ":8080"))
	n.start()
	before := n.lives(n.waitRunning("web"))
	n.stop()
	thaw := n.freeze()

	// when one is started, then it answers, and says what it does not know
	n.apply("later.yaml", newPod("later", "serve", ":8080"))
	n.startWithoutRuntime()
	for _, name := range []string{"web", "later"} {
		n.waitPod(name, "is not known", startLimit, func(p v1.Pod) string {
			return boolText(p.Status.Phase == v1.PodUnknown && p.Status.Reason == "ContainerRuntimeNotReady")
		})
	}
	n.waitNotReady(startLimit, "not answered for ")
	if got := n.berth("doctor"); !strings.Contains(got.out, "CHECK") {
		t.Errorf("doctor: %s", got)
	}
	n.stop() // also that is done in time
	n.startWithoutRuntime()

	// when the runtime goes on, then the pods do, too
	thaw()
	n.waitRunning("web", "later")
	n.mustLiveOn(before)
	n.wait("the node to be ready", startLimit, n.whyNotReady)
}

func TestOurRuntimeIsReplacedWhenItHangs(t *testing.T) {
	t.Parallel()
	// given an agent that has little patience, and pods
	n := newNode(t)
	n.apply("pods.yaml", execProbed("one"), newPod("plain", "serve", ":8080"))
	n.start("--runtime-silence-limit", "10s")
	before := n.lives(n.waitRunning("one", "plain"))

	// when the runtime stands still, then it is killed, and another one goes on with the pods
	old := n.containerdPID()
	n.freeze()
	n.wait("another containerd", startLimit, func() string { return boolText(n.containerdPID() != old) })
	n.apply("later.yaml", newPod("later", "serve", ":8080"))
	n.waitRunning("one", "plain", "later")
	n.mustLiveOn(before)

	// and so by an agent that was started meanwhile
	n.crash()
	old = n.containerdPID()
	n.freeze()
	n.start("--runtime-silence-limit", "10s")
	n.wait("another containerd", startLimit, func() string { return boolText(n.containerdPID() != old) })
	n.waitRunning("one", "plain", "later")
	n.mustLiveOn(before)
}

func TestACallThatIsNeverAnsweredIsNamed(t *testing.T) {
	t.Parallel()
	// given the containerd of another root, behind a proxy that holds one kind of call
	other := newNode(t)
	other.start()
	other.stop()
	socket := filepath.Join(other.dir, "proxy.sock")
	proxy := fixture.NewCRIProxy(t, socket, other.socket)
	n := newNode(t)
	n.socket = other.socket
	release := proxy.Hold("ListContainers")
	t.Cleanup(release)

	// when an agent is given that, then it answers, and says which call hangs
	n.apply("web.yaml", newPod("web", "serve", ":8080"))
	n.start("--container-runtime-endpoint", "unix://"+socket)
	if why := n.whyNotReady(); why != "" {
		t.Errorf("it is not ready too early: %s", why)
	}
	n.waitPod("web", "is not known", startLimit, func(p v1.Pod) string { return boolText(p.Status.Phase == v1.PodUnknown) })
	n.waitNotReady(2*time.Minute, "container runtime not ready: ListContainers has not answered for 1m0s")

	// when it is answered, then the node is ready and the pod runs
	release()
	n.waitRunning("web")
	n.wait("the node to be ready", startLimit, n.whyNotReady)

	// when calls of one pod hang, then the others and the node do not care
	release = proxy.Hold("StopPodSandbox", "StopContainer")
	t.Cleanup(release)
	n.remove("web.yaml")
	n.apply("next.yaml", newPod("next", "serve", ":8081"))
	n.waitRunning("next")
	if why := n.whyNotReady(); why != "" {
		t.Errorf("it is not ready: %s", why)
	}
	release()
	n.waitGone("web")
}

// warmedUp is a pod with a postStart hook, both of which write to the log of its container.
func warmedUp(name string) *v1.Pod {
	p := newPod(name, "diary", "app", "0s")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("hook", "hook", "100ms", "0")}
	return p
}

func TestAPostStartHookThatNobodyAnswersForIsRunAgain(t *testing.T) {
	t.Parallel()
	// given the containerd of another root, behind a proxy, and calls that are soon given up
	other := newNode(t)
	other.start()
	other.stop()
	socket := filepath.Join(other.dir, "proxy.sock")
	proxy := fixture.NewCRIProxy(t, socket, other.socket)
	n := newNode(t)
	n.configure("runtimeRequestTimeout: 5s\n")
	n.socket = other.socket
	n.start("--container-runtime-endpoint", "unix://"+socket)

	// when commands are not answered, then their containers wait, and nothing is stopped
	waits := func(name string) string {
		t.Helper()
		id := ""
		n.waitPod(name, "waits for its hook", startLimit, func(p v1.Pod) string {
			c := app(p)
			if c.State.Waiting == nil || !strings.Contains(c.State.Waiting.Message, "the container runtime does not answer") {
				return summary(p)
			}
			id = c.ContainerID
			return boolText(id != "")
		})
		return id
	}
	mustBe := func(name, id string) {
		t.Helper()
		p := n.waitRunning(name)[name]
		if c := app(p); c.ContainerID != id || c.RestartCount != 0 {
			t.Errorf("%s is another container than %s: %+v", name, id, c)
		}
		n.openDiaries(p).until("app start", "hook start", "hook end")
		for _, e := range n.eventsOf(p) {
			if e.Type != v1.EventTypeNormal {
				t.Errorf("%s: %s: %s", name, e.Reason, e.Message)
			}
		}
	}
	release := proxy.Hold("ExecSync", "Version")
	t.Cleanup(release)
	n.apply("warm.yaml", warmedUp("warm"))
	n.apply("leaves.yaml", warmedUp("leaves"))
	warm := waits("warm")
	waits("leaves")

	// and a pod can go meanwhile
	n.remove("leaves.yaml")
	n.waitGone("leaves")

	// when they are, then the hook is run in the same container
	release()
	mustBe("warm", warm)

	// and so by an agent that was started meanwhile
	release = proxy.Hold("ExecSync", "Version")
	t.Cleanup(release)
	n.apply("later.yaml", warmedUp("later"))
	later := waits("later")
	n.crash()
	release()
	n.start("--container-runtime-endpoint", "unix://"+socket)
	mustBe("later", later)
	mustBe("warm", warm)
}
