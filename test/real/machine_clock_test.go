//go:build real && machine

package real

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
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
	n := newNode(t)
	n.configure("crashLoopBackOff: {maxContainerRestartPeriod: 10s}\n")
	web := newPod("web", "serve", ":7070")
	web.Spec.Containers[0].ReadinessProbe = &v1.Probe{
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/workload", "ask", "http://127.0.0.1:7070/"}}}, PeriodSeconds: 2, TimeoutSeconds: 20,
	}
	n.apply("web.yaml", web)
	n.apply("crasher.yaml", newPod("crasher", "exit", "1"))
	n.start()
	ready := func(p v1.Pod) string {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
				return ""
			}
		}
		return "that it is ready"
	}
	before := n.waitPod("web", "to be ready", startLimit, ready)

	for i, by := range []time.Duration{day, -day, -day, day} {
		// given a container that waits to be started again
		crashed := n.waitPod("crasher", "to wait", startLimit, func(p v1.Pod) string {
			w := app(p).State.Waiting
			return boolText(w != nil && w.Reason == "CrashLoopBackOff")
		})

		// when the clock jumps
		jump(t, by)

		// then it is started as if nothing had happened, within ten seconds
		n.waitPod("crasher", "to be started again", startLimit, func(p v1.Pod) string {
			return boolText(app(p).RestartCount > app(crashed).RestartCount)
		})
		// and other pods come, and go
		name := "late-" + string(rune('a'+i))
		n.apply(name+".yaml", newPod(name, "sleep"))
		n.waitRunning(name)
		n.remove(name + ".yaml")
		n.waitGone(name)
		// and who was well still is
		after := n.waitPod("web", "to be ready", startLimit, ready)
		if app(after).ContainerID != app(before).ContainerID || app(after).RestartCount != 0 {
			t.Errorf("after a jump of %s web is %s, before it was %s", by, summary(after), summary(before))
		}
	}
	text, err := os.ReadFile(n.logFile())
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > 300 {
		t.Errorf("the agent logged %d lines", lines)
	}
}
