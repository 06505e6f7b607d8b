//go:build real

package real

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

func TestPostStartHooks(t *testing.T) {
	t.Parallel()
	// given a pod whose hook fails, one whose hooks are answered by another container of it,
	// one whose hook takes long, and one whose hook nobody answers
	n := newNode(t)
	n.configure("crashLoopBackOff:\n  maxContainerRestartPeriod: 3s\n")
	fails := newPod("fails", "diary", "app", "0s")
	fails.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("hook", "hook", "100ms", "3")}
	works := newPod("works", "serve", ":8080")
	asks := newContainer("asks", "sleep")
	asks.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}}
	connects, rests := newContainer("connects", "sleep"), newContainer("rests", "sleep")
	connects.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}
	rests.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}}
	works.Spec.Containers = append(works.Spec.Containers, asks, connects, rests)
	lonely := newPod("lonely", "sleep")
	lonely.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}
	hangs := newPod("hangs", "diary", "app", "0s")
	hangs.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("hook", "hook", "1m", "0")}
	n.apply("pods.yaml", fails, works, lonely)
	n.apply("hangs.yaml", hangs)
	n.start()

	// then the first is stopped, started again at once, and then has to wait
	waiting := n.waitPod("fails", "waits", startLimit, func(p v1.Pod) string {
		w := app(p).State.Waiting
		return boolText(app(p).RestartCount == 1 && w != nil && w.Reason == pod.ReasonCrashLoopBackOff)
	})
	if last := app(waiting).LastTerminationState.Terminated; last == nil || last.ExitCode != 0 {
		t.Errorf("its last state is %+v", last)
	}
	before := n.openDiaries(waiting).until("app start", "hook start", "hook end", "app term", "app end")
	if e := n.waitEvent(waiting, event.FailedPostStartHook); e.Type != v1.EventTypeWarning || !strings.Contains(e.Message, "exit code 3") {
		t.Errorf("the event is %+v", e)
	}
	again := n.waitPod("fails", "is tried again", startLimit, func(p v1.Pod) string { return boolText(app(p).RestartCount == 2) })
	var started time.Time
	n.wait("its next start in the log", 10*time.Second, func() string {
		started, _ = n.openDiaries(again).read().find("app", "start")
		return boolText(started.After(before.at("app", "end")))
	})
	gap := started.Sub(before.at("app", "end"))
	if gap < crashLoop(3) || gap > crashLoop(3)+graceMargin {
		t.Errorf("it was tried again after %s", gap)
	}

	// and the second runs
	p := n.waitRunning("works")["works"]
	for _, c := range p.Status.ContainerStatuses {
		if c.RestartCount != 0 {
			t.Errorf("%s was restarted %d times: %v", c.Name, c.RestartCount, n.eventsOf(p))
		}
	}
	n.waitEvent(p, event.Started)
	for _, e := range n.eventsOf(p) {
		if e.Type != v1.EventTypeNormal {
			t.Errorf("%s: %s", e.Reason, e.Message)
		}
	}

	// and one that can't connect is told where to
	refused := n.waitEvent(n.pod("lonely"), event.FailedPostStartHook)
	if !strings.Contains(refused.Message, ":8080") || !strings.Contains(refused.Message, "refused") {
		t.Errorf("the event says %q", refused.Message)
	}

	// when the third is removed, then it does not wait for its hook
	n.wait("the hook that takes long", startLimit, func() string {
		links := n.links(n.pod("hangs"))
		if len(links) == 0 {
			return "its container"
		}
		_, begun := n.openLogs(links...).read().find("hook", "start")
		return boolText(begun)
	})
	log := n.openDiaries(n.pod("hangs"))
	began := time.Now()
	n.remove("hangs.yaml")
	n.waitGone("hangs")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s to go", took)
	}
	log.until("app start", "hook start", "app term", "app end")
}
