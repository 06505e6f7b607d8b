//go:build real

package core

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/test/real/kit"
)

func TestCrashLoopGoesOnAfterTheAgentWasKilled(t *testing.T) {
	t.Parallel()
	// given a container that crashed twice, and waits
	n := kit.NewNode(t)
	n.Configure("crashLoopBackOff:\n  maxContainerRestartPeriod: 8s\n")
	n.Apply("crasher.yaml", kit.NewPod("crasher", "exit", "1", "after", "300ms"))
	n.Start()
	isWaiting := func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(w != nil && w.Reason == pod.ReasonCrashLoopBackOff)
	}
	before := n.WaitPod("crasher", "waits", kit.StartTimeout, isWaiting)

	// when the agent is killed in the middle of that
	dead, _ := n.Container(kit.ContainerIDs(before)["app"])
	n.Wait("half of the wait", 10*time.Second, func() string {
		return kit.MissingUnless(time.Since(time.Unix(0, dead.FinishedAt)) > kit.CrashLoopDelay(4))
	})
	n.KillAgent()
	n.Start()

	// then the next agent counts on, and knows what was before
	after := n.WaitPod("crasher", "waits", kit.StartTimeout, isWaiting)
	if kit.AppStatus(after).RestartCount != 1 || kit.AppStatus(after).ContainerID != kit.AppStatus(before).ContainerID || after.UID != before.UID {
		t.Errorf("it was %s %s, and is %s %s", kit.AppStatus(before).ContainerID, kit.Summary(before), kit.AppStatus(after).ContainerID, kit.Summary(after))
	}

	// and the wait was not begun anew
	again := n.WaitPod("crasher", "is restarted", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(kit.AppStatus(p).RestartCount == 2) })
	gap := restartGap(n, again)
	t.Logf("it waited for %s in all", gap)
	if gap < kit.CrashLoopDelay(8) || gap > kit.CrashLoopDelay(11) {
		t.Errorf("it waited for %s in all, and not for 8 s", gap)
	}
	if last := kit.AppStatus(again).LastTerminationState.Terminated; last == nil || last.ContainerID != kit.AppStatus(before).ContainerID || last.ExitCode != 1 {
		t.Errorf("its last state is %+v", last)
	}

	// when the agent is killed as soon as it was, then it is not restarted once more
	n.KillAgent()
	n.Start()
	waiting := n.WaitPod("crasher", "waits", kit.StartTimeout, isWaiting)
	if kit.AppStatus(waiting).RestartCount != 2 || kit.ContainerIDs(waiting)["app"] != kit.ContainerIDs(again)["app"] {
		t.Errorf("it was %s, and is %s", kit.Summary(again), kit.Summary(waiting))
	}
}
