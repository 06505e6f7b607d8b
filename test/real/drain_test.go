//go:build real

package real

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestDrainAndUndo(t *testing.T) {
	t.Parallel()
	// given a pod of low priority, one of high priority, and a job that is done
	n := newNode(t)
	first, last := newPod("first", "diary", "low", "1s"), newPod("last", "diary", "high", "0s")
	last.Spec.Priority = new(int32(2_000_001_000))
	n.apply("pods.yaml", first, last, withPolicy(v1.RestartPolicyNever, newPod("done", "exit", "0")))
	n.start()
	pods := n.waitRunning("first", "last")
	n.waitPod("done", "has ended", startLimit, func(p v1.Pod) string { return boolText(p.Status.Phase == v1.PodSucceeded) })
	logs := n.openLogs(append(n.links(pods["first"]), n.links(pods["last"])...)...)

	// when the node is drained
	out := n.must("drain")

	// then each is said to have stopped, the low priority first
	for _, want := range []string{" to stop", "pod default/first-" + nodeName + " stopped (", "pod default/last-" + nodeName + " stopped (", "the node is drained"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if strings.Index(out, "first-"+nodeName+" stopped") > strings.Index(out, "last-"+nodeName+" stopping") {
		t.Errorf("the order is wrong:\n%s", out)
	}
	logs.until("low term", "low end", "high term", "high end")

	// and nothing runs, which the pods explain
	n.mustRunNothing()
	for _, name := range []string{"first", "last"} {
		if s := n.pod(name).Status; s.Phase != v1.PodFailed || s.Reason != "Terminated" || !strings.Contains(s.Message, "berth drain") {
			t.Errorf("%s is %s, because of %s: %s", name, s.Phase, s.Reason, s.Message)
		}
	}

	// and the node says that it takes no pods
	if row := n.must("get", "node"); !strings.Contains(row, " NotReady,SchedulingDisabled ") {
		t.Errorf("a drained node is shown as:\n%s", row)
	}
	if text := n.must("describe", "node"); !strings.Contains(text, "it was drained; 'berth drain --undo' lets pods run again") {
		t.Errorf("a drained node does not say so:\n%s", text)
	}

	// and nothing starts, though it is there to see, and a second drain has nothing to do
	n.apply("new.yaml", newPod("new", "sleep"))
	n.waitPod("new", "waits", 10*time.Second, func(p v1.Pod) string { return boolText(p.Status.Reason == "NodeShutdown") })
	if out := n.must("drain"); !strings.Contains(out, "0 to stop") {
		t.Errorf("got:\n%s", out)
	}
	n.mustRunNothing()

	// when that is undone, then all run again, have not crashed, and the log of the one before is there
	n.must("drain", "--undo")
	again := n.waitRunning("first", "last", "new")
	if c := app(again["first"]); c.RestartCount != 0 || c.LastTerminationState.Terminated == nil {
		t.Errorf("first is %s", summary(again["first"]))
	}
	if log := n.must("logs", "--previous", "first"); !strings.Contains(log, "low end") {
		t.Errorf("the log of the life before is %q", log)
	}
	if row := n.must("get", "node"); !strings.Contains(row, " Ready ") {
		t.Errorf("an open node is shown as:\n%s", row)
	}
	if p := n.pod("done"); p.Status.Phase != v1.PodSucceeded || app(p).RestartCount != 0 {
		t.Errorf("done is %s", summary(p))
	}

	// when it is drained once more, then the next agent lets them run again
	n.must("drain")
	n.mustRunNothing()
	n.stop()
	n.start()
	again = n.waitRunning("first", "last", "new")
	if c := app(again["first"]); c.RestartCount != 0 {
		t.Errorf("for the next agent first is %s", summary(again["first"]))
	}
}

func TestDrainsAreNoCrashesAndProbesGoOn(t *testing.T) {
	t.Parallel()
	// given a pod with all kinds of probes
	n := newNode(t)
	web := newPod("web", "moody", ":8080")
	c := &web.Spec.Containers[0]
	c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = every(httpGet(8080)), every(execAsk(8080)), every(httpGet(8080))
	c.StartupProbe.FailureThreshold = 30
	n.apply("web.yaml", web)
	n.start()
	isReady := func(p v1.Pod) string { return boolText(ready(p)) }
	n.waitPod("web", "is ready", startLimit, isReady)

	// when the node is drained and opened several times in a row
	for range 4 {
		n.must("drain", "--grace-period-seconds", "1")
		n.must("drain", "--undo")
		// then it is up again each time, at once, and nobody counts that as a crash
		p := n.waitPod("web", "is ready again", 8*time.Second, isReady)
		if app(p).RestartCount != 0 || app(p).Started == nil || !*app(p).Started {
			t.Errorf("web is %s", summary(p))
		}
	}

	// when it falls ill, then that is noticed, and it is restarted
	before := n.pod("web")
	if _, err := n.get(before.Status.PodIP+":8080", "/sick"); err != nil {
		t.Fatal(err)
	}
	after := n.waitPod("web", "is restarted", startLimit, func(p v1.Pod) string { return boolText(app(p).RestartCount == 1 && ready(p)) })
	if app(after).ContainerID == app(before).ContainerID {
		t.Errorf("web is %s", summary(after))
	}
}

func TestDrainThatTakesTooLong(t *testing.T) {
	t.Parallel()
	// given a pod that does not end when it is told to
	n := newNode(t)
	slow := newPod("slow", "cling", "app")
	slow.Spec.TerminationGracePeriodSeconds = new(int64(60))
	n.apply("pods.yaml", slow)
	n.start()
	n.waitRunning("slow")

	// when the drain may not take that long, then it fails, and names the pod
	got := n.berth("drain", "--timeout", "2s")
	if got.code != 1 || !strings.Contains(got.stderr, "1 pods have not stopped: default/slow-"+nodeName) {
		t.Errorf("got %s", got)
	}

	// when the grace is cut, then it ends
	began := time.Now()
	n.must("drain", "--grace-period-seconds", "1")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	n.mustRunNothing()
}

// mustRunNothing looks into the runtime itself.
func (n *node) mustRunNothing() {
	n.t.Helper()
	for _, s := range n.sandboxes() {
		if s.State.String() == "SANDBOX_READY" {
			n.t.Errorf("sandbox %s of %s is up", s.Id, s.Metadata.Name)
		}
	}
	for _, c := range n.containers() {
		if c.State.String() == "CONTAINER_RUNNING" {
			n.t.Errorf("container %s runs", c.Metadata.Name)
		}
	}
}
