//go:build real

package core

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

func TestDrainAndUndo(t *testing.T) {
	t.Parallel()
	// given a pod of low priority, one of high priority, and a job that is done
	n := kit.NewNode(t)
	first, last := kit.NewPod("first", "activity", "low", "1s"), kit.NewPod("last", "activity", "high", "0s")
	last.Spec.Priority = new(int32(2_000_001_000))
	n.Apply("pods.yaml", first, last, kit.WithRestartPolicy(v1.RestartPolicyNever, kit.NewPod("done", "exit", "0")))
	n.Start()
	pods := n.WaitRunning("first", "last")
	n.WaitPod("done", "has ended", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(p.Status.Phase == v1.PodSucceeded) })
	logs := n.OpenActivityLogFiles(append(n.LogLinks(pods["first"]), n.LogLinks(pods["last"])...)...)

	// when the node is drained
	out := n.MustBerth("drain")

	// then each is said to have stopped, the low priority first
	for _, want := range []string{" to stop", "pod default/first-" + kit.NodeName + " stopped (", "pod default/last-" + kit.NodeName + " stopped (", "the node is drained"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if strings.Index(out, "first-"+kit.NodeName+" stopped") > strings.Index(out, "last-"+kit.NodeName+" stopping") {
		t.Errorf("the order is wrong:\n%s", out)
	}
	logs.WaitInOrder("low term", "low end", "high term", "high end")

	// and nothing runs, which the pods explain
	mustRunNothing(n)
	for _, name := range []string{"first", "last"} {
		if s := n.Pod(name).Status; s.Phase != v1.PodFailed || s.Reason != "Terminated" || !strings.Contains(s.Message, "berth drain") {
			t.Errorf("%s is %s, because of %s: %s", name, s.Phase, s.Reason, s.Message)
		}
	}

	// and the node says that it takes no pods
	if row := n.MustBerth("get", "node"); !strings.Contains(row, " NotReady,SchedulingDisabled ") {
		t.Errorf("a drained node is shown as:\n%s", row)
	}
	if text := n.MustBerth("describe", "node"); !strings.Contains(text, "it was drained; 'berth drain --undo' lets pods run again") {
		t.Errorf("a drained node does not say so:\n%s", text)
	}

	// and nothing starts, though it is there to see, and a second drain has nothing to do
	n.Apply("new.yaml", kit.NewPod("new", "sleep"))
	n.WaitPod("new", "waits", 10*time.Second, func(p v1.Pod) string { return kit.MissingUnless(p.Status.Reason == "NodeShutdown") })
	if out := n.MustBerth("drain"); !strings.Contains(out, "0 to stop") {
		t.Errorf("got:\n%s", out)
	}
	mustRunNothing(n)

	// when that is undone, then all run again, have not crashed, and the log of the one before is there
	n.MustBerth("drain", "--undo")
	again := n.WaitRunning("first", "last", "new")
	if c := kit.AppStatus(again["first"]); c.RestartCount != 0 || c.LastTerminationState.Terminated == nil {
		t.Errorf("first is %s", kit.Summary(again["first"]))
	}
	if log := n.MustBerth("logs", "--previous", "first"); !strings.Contains(log, "low end") {
		t.Errorf("the log of the life before is %q", log)
	}
	if row := n.MustBerth("get", "node"); !strings.Contains(row, " Ready ") {
		t.Errorf("an open node is shown as:\n%s", row)
	}
	if p := n.Pod("done"); p.Status.Phase != v1.PodSucceeded || kit.AppStatus(p).RestartCount != 0 {
		t.Errorf("done is %s", kit.Summary(p))
	}

	// when it is drained once more, then the next agent lets them run again
	n.MustBerth("drain")
	mustRunNothing(n)
	n.Stop()
	n.Start()
	again = n.WaitRunning("first", "last", "new")
	if c := kit.AppStatus(again["first"]); c.RestartCount != 0 {
		t.Errorf("for the next agent first is %s", kit.Summary(again["first"]))
	}
}

func TestDrainsAreNoCrashesAndProbesGoOn(t *testing.T) {
	t.Parallel()
	// given a pod with all kinds of probes
	n := kit.NewNode(t)
	web := kit.NewPod("web", "moody", ":8080")
	c := &web.Spec.Containers[0]
	c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = kit.ProbeEachSecond(kit.HTTPGet(8080)), kit.ProbeEachSecond(kit.ExecGet(8080)), kit.ProbeEachSecond(kit.HTTPGet(8080))
	c.StartupProbe.FailureThreshold = 30
	n.Apply("web.yaml", web)
	n.Start()
	isReady := func(p v1.Pod) string { return kit.MissingUnless(kit.IsReady(p)) }
	n.WaitPod("web", "is ready", kit.StartTimeout, isReady)

	// when the node is drained and opened several times in a row
	for range 4 {
		n.MustBerth("drain", "--grace-period-seconds", "1")
		n.MustBerth("drain", "--undo")
		// then it is up again each time, at once, and that does not count as a crash
		p := n.WaitPod("web", "is ready again", 8*time.Second, isReady)
		if kit.AppStatus(p).RestartCount != 0 || kit.AppStatus(p).Started == nil || !*kit.AppStatus(p).Started {
			t.Errorf("web is %s", kit.Summary(p))
		}
	}

	// when it falls ill, then that is noticed, and it is restarted
	before := n.Pod("web")
	if _, err := n.Get(before.Status.PodIP+":8080", "/sick"); err != nil {
		t.Fatal(err)
	}
	after := n.WaitPod("web", "is restarted", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(kit.AppStatus(p).RestartCount == 1 && kit.IsReady(p)) })
	if kit.AppStatus(after).ContainerID == kit.AppStatus(before).ContainerID {
		t.Errorf("web is %s", kit.Summary(after))
	}
}

func TestDrainThatTakesTooLong(t *testing.T) {
	t.Parallel()
	// given a pod that does not end at SIGTERM
	n := kit.NewNode(t)
	slow := kit.NewPod("slow", "cling", "app")
	slow.Spec.TerminationGracePeriodSeconds = new(int64(60))
	n.Apply("pods.yaml", slow)
	n.Start()
	n.WaitRunning("slow")

	// when the drain may not take that long, then it fails, and names the pod
	got := n.Berth("drain", "--timeout", "2s")
	if got.Code != 1 || !strings.Contains(got.Stderr, "1 pods have not stopped: default/slow-"+kit.NodeName) {
		t.Errorf("got %s", got)
	}

	// when the grace is cut, then it ends
	began := time.Now()
	n.MustBerth("drain", "--grace-period-seconds", "1")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	mustRunNothing(n)
}

// mustRunNothing checks that the runtime itself has no running containers.
func mustRunNothing(n *kit.Node) {
	n.T.Helper()
	for _, s := range n.Sandboxes() {
		if s.State.String() == "SANDBOX_READY" {
			n.T.Errorf("sandbox %s of %s is up", s.Id, s.Metadata.Name)
		}
	}
	for _, c := range n.Containers() {
		if c.State.String() == "CONTAINER_RUNNING" {
			n.T.Errorf("container %s runs", c.Metadata.Name)
		}
	}
}
