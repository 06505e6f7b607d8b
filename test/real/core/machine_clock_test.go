//go:build real && machine

package core

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

// jump sets the clock of the machine forth or back.
func jump(t *testing.T, by time.Duration) {
	t.Helper()
	tv := unix.NsecToTimeval(time.Now().Add(by).UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		t.Fatal(err)
	}
}

// It runs alone: the others have a look at the clock, too.
func TestTheClockJumps(t *testing.T) {
	const day = 26 * time.Hour
	n := kit.NewNode(t)
	n.Configure("crashLoopBackOff: {maxContainerRestartPeriod: 10s}\n")
	web := kit.NewPod("web", "serve", ":7070")
	web.Spec.Containers[0].ReadinessProbe = &v1.Probe{
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/workload", "ask", "http://127.0.0.1:7070/"}}}, PeriodSeconds: 2, TimeoutSeconds: 20,
	}
	n.Apply("web.yaml", web)
	n.Apply("crasher.yaml", kit.NewPod("crasher", "exit", "1"))
	n.Start()
	ready := func(p v1.Pod) string {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
				return ""
			}
		}
		return "that it is ready"
	}
	before := n.WaitPod("web", "to be ready", kit.StartTimeout, ready)

	for i, by := range []time.Duration{day, -day, -day, day} {
		// given a container that waits to be started again
		crashed := n.WaitPod("crasher", "to wait", kit.StartTimeout, func(p v1.Pod) string {
			w := kit.AppStatus(p).State.Waiting
			return kit.MissingUnless(w != nil && w.Reason == "CrashLoopBackOff")
		})

		// when the clock jumps
		jump(t, by)

		// then it is started as if nothing had happened, within ten seconds
		n.WaitPod("crasher", "to be started again", kit.StartTimeout, func(p v1.Pod) string {
			return kit.MissingUnless(kit.AppStatus(p).RestartCount > kit.AppStatus(crashed).RestartCount)
		})
		// and other pods come, and go
		name := "late-" + string(rune('a'+i))
		n.Apply(name+".yaml", kit.NewPod(name, "sleep"))
		n.WaitRunning(name)
		n.RemoveManifest(name + ".yaml")
		n.WaitGone(name)
		// and who was well still is
		after := n.WaitPod("web", "to be ready", kit.StartTimeout, ready)
		if kit.AppStatus(after).ContainerID != kit.AppStatus(before).ContainerID || kit.AppStatus(after).RestartCount != 0 {
			t.Errorf("after a jump of %s web is %s, before it was %s", by, kit.Summary(after), kit.Summary(before))
		}
	}
	text, err := os.ReadFile(n.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > 300 {
		t.Errorf("the agent logged %d lines", lines)
	}
}
