//go:build real

package pods

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
	"berth/test/real/kit"
)

func TestPostStartHooks(t *testing.T) {
	t.Parallel()
	// given a pod whose hook fails, one whose hooks are answered by another container of it, one
	// whose hook takes long, one whose hook is not answered, and one with a container after its hook
	n := kit.NewNode(t)
	n.Configure("crashLoopBackOff:\n  maxContainerRestartPeriod: 3s\n")
	fails := kit.NewPod("fails", "activity", "app", "0s")
	fails.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: kit.ExecHook("hook", "hook", "100ms", "3")}
	works := kit.NewPod("works", "serve", ":8080")
	asks := kit.NewContainer("asks", "sleep")
	asks.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}}
	connects, rests := kit.NewContainer("connects", "sleep"), kit.NewContainer("rests", "sleep")
	connects.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}
	rests.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}}
	works.Spec.Containers = append(works.Spec.Containers, asks, connects, rests)
	lonely := kit.NewPod("lonely", "sleep")
	lonely.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}
	hangs := kit.NewPod("hangs", "activity", "app", "0s")
	hangs.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: kit.ExecHook("hook", "hook", "1m", "0")}
	ordered := kit.NewPod("ordered", "activity", "app", "0s")
	ordered.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: kit.ExecHook("hook", "hook", "1s", "0")}
	ordered.Spec.Containers = append(ordered.Spec.Containers, kit.NewContainer("next", "activity", "next", "0s"))
	n.Apply("pods.yaml", fails, works, lonely, ordered)
	n.Apply("hangs.yaml", hangs)
	n.Start()

	// then the first is stopped, started again at once, and then has to wait
	waiting := n.WaitPod("fails", "waits", kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(kit.AppStatus(p).RestartCount == 1 && w != nil && w.Reason == pod.ReasonCrashLoopBackOff)
	})
	if last := kit.AppStatus(waiting).LastTerminationState.Terminated; last == nil || last.ExitCode != 0 {
		t.Errorf("its last state is %+v", last)
	}
	before := n.OpenActivityLogs(waiting).WaitInOrder("app start", "hook start", "hook end", "app term", "app end")
	if e := n.WaitEvent(waiting, event.FailedPostStartHook); e.Type != v1.EventTypeWarning || !strings.Contains(e.Message, "exit code 3") {
		t.Errorf("the event is %+v", e)
	}
	again := n.WaitPod("fails", "is tried again", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(kit.AppStatus(p).RestartCount == 2) })
	var started time.Time
	n.Wait("its next start in the log", 10*time.Second, func() string {
		started, _ = n.OpenActivityLogs(again).Read().Find("app", "start")
		return kit.MissingUnless(started.After(before.At("app", "end")))
	})
	gap := started.Sub(before.At("app", "end"))
	if gap < kit.CrashLoopDelay(3) || gap > kit.CrashLoopDelay(3)+kit.GraceMargin {
		t.Errorf("it was tried again after %s", gap)
	}

	// and the second runs
	p := n.WaitRunning("works")["works"]
	for _, c := range p.Status.ContainerStatuses {
		if c.RestartCount != 0 {
			t.Errorf("%s was restarted %d times: %v", c.Name, c.RestartCount, n.Events(p))
		}
	}
	n.WaitEvent(p, event.Started)
	for _, e := range n.Events(p) {
		if e.Type != v1.EventTypeNormal {
			t.Errorf("%s: %s", e.Reason, e.Message)
		}
	}

	// and the event of a hook that can't connect names the address
	refused := n.WaitEvent(n.Pod("lonely"), event.FailedPostStartHook)
	if !strings.Contains(refused.Message, ":8080") || !strings.Contains(refused.Message, "refused") {
		t.Errorf("the event says %q", refused.Message)
	}

	// and a hook holds up the next container
	n.OpenActivityLogs(n.WaitRunning("ordered")["ordered"]).WaitInOrder("app start", "hook start", "hook end", "next start")

	// when the one whose hook takes long is removed, then it does not wait for its hook
	n.Wait("the hook that takes long", kit.StartTimeout, func() string {
		links := n.LogLinks(n.Pod("hangs"))
		if len(links) == 0 {
			return "its container"
		}
		_, begun := n.OpenActivityLogFiles(links...).Read().Find("hook", "start")
		return kit.MissingUnless(begun)
	})
	log := n.OpenActivityLogs(n.Pod("hangs"))
	began := time.Now()
	n.RemoveManifest("hangs.yaml")
	n.WaitGone("hangs")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s to go", took)
	}
	log.WaitInOrder("app start", "hook start", "app term", "app end")
}
