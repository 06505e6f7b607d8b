//go:build real

package real

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// crashLoop is a wait between two restarts.
func crashLoop(seconds int) time.Duration { return time.Duration(seconds) * time.Second }

func TestCrashLoopGoesOnAfterTheAgentWasKilled(t *testing.T) {
	t.Parallel()
	// given a container that crashed twice, and waits
	n := newNode(t)
	n.configure("crashLoopBackOff:\n  maxContainerRestartPeriod: 8s\n")
	n.apply("crasher.yaml", newPod("crasher", "exit", "1", "after", "300ms"))
	n.start()
	isWaiting := func(p v1.Pod) string {
		w := app(p).State.Waiting
		return boolText(w != nil && w.Reason == pod.ReasonCrashLoopBackOff)
	}
	before := n.waitPod("crasher", "waits", startLimit, isWaiting)

	// when the agent is killed in the middle of that
	dead, _ := n.container(ids(before)["app"])
	n.wait("half of the wait", 10*time.Second, func() string { return boolText(time.Since(time.Unix(0, dead.FinishedAt)) > crashLoop(4)) })
	n.crash()
	n.start()

	// then the next agent counts on, and knows what was before
	after := n.waitPod("crasher", "waits", startLimit, isWaiting)
	if app(after).RestartCount != 1 || app(after).ContainerID != app(before).ContainerID || after.UID != before.UID {
		t.Errorf("it was %s %s, and is %s %s", app(before).ContainerID, summary(before), app(after).ContainerID, summary(after))
	}

	// and the wait was not begun anew
	again := n.waitPod("crasher", "is restarted", startLimit, func(p v1.Pod) string { return boolText(app(p).RestartCount == 2) })
	gap := n.gap(again)
	t.Logf("it waited for %s in all", gap)
	if gap < crashLoop(8) || gap > crashLoop(11) {
		t.Errorf("it waited for %s in all, and not for 8 s", gap)
	}
	if last := app(again).LastTerminationState.Terminated; last == nil || last.ContainerID != app(before).ContainerID || last.ExitCode != 1 {
		t.Errorf("its last state is %+v", last)
	}

	// when the agent is killed as soon as it was, then it is not restarted once more
	n.crash()
	n.start()
	waiting := n.waitPod("crasher", "waits", startLimit, isWaiting)
	if app(waiting).RestartCount != 2 || ids(waiting)["app"] != ids(again)["app"] {
		t.Errorf("it was %s, and is %s", summary(again), summary(waiting))
	}
}
