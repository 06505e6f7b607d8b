//go:build real

package real

import (
	"fmt"
	"maps"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

func TestFinishedPodsStayFinished(t *testing.T) {
	t.Parallel()
	// given pods that end, each in its own way
	const deadline = 12 // seconds: on a busy machine, it takes some to start it
	n := newNode(t)
	fallback := withPolicy(v1.RestartPolicyNever, newPod("fallback", "complain", "out of luck", "5"))
	fallback.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	badInit := withPolicy(v1.RestartPolicyNever, newPod("badinit", "sleep"))
	badInit.Spec.InitContainers = []v1.Container{newContainer("init", "lastwords", "can't begin", "7")}
	late := newPod("late", "diary", "app", "0s")
	late.Spec.ActiveDeadlineSeconds = new(int64(deadline))
	n.apply("pods.yaml",
		withPolicy(v1.RestartPolicyNever, newPod("done", "exit", "0")),
		withPolicy(v1.RestartPolicyOnFailure, newPod("told", "lastwords", "all is well", "0")),
		withPolicy(v1.RestartPolicyNever, newPod("failed", "lastwords", "disk is full", "3")),
		fallback, badInit, late,
	)
	n.start()

	// then they say how
	type end struct {
		phase                           v1.PodPhase
		why, containerReason, lastWords string
		code                            int32
	}
	want := map[string]end{
		"done":     {v1.PodSucceeded, "", pod.ReasonCompleted, "", 0},
		"told":     {v1.PodSucceeded, "", pod.ReasonCompleted, "all is well", 0},
		"failed":   {v1.PodFailed, "", pod.ReasonError, "disk is full", 3},
		"fallback": {v1.PodFailed, "", pod.ReasonError, "out of luck", 5},
		"late":     {v1.PodFailed, pod.ReasonDeadlineExceeded, pod.ReasonCompleted, "", 0},
	}
	ends := func() (map[string]end, v1.Pod) {
		out, pods := map[string]end{}, n.pods()
		for name := range want {
			e := end{phase: pods[name].Status.Phase, why: pods[name].Status.Reason}
			if c := app(pods[name]).State.Terminated; c != nil {
				e.code, e.containerReason, e.lastWords = c.ExitCode, c.Reason, c.Message
			}
			out[name] = e
		}
		return out, pods["badinit"]
	}
	waitEnds := func(when string) {
		t.Helper()
		n.wait("the ends of all pods "+when, startLimit, func() string {
			got, bad := ends()
			if !maps.Equal(got, want) {
				return fmt.Sprintf("%+v", got)
			}
			init := bad.Status.InitContainerStatuses
			if bad.Status.Phase != v1.PodFailed || len(init) != 1 || init[0].State.Terminated == nil || init[0].State.Terminated.Message != "can't begin" ||
				app(bad).State.Waiting == nil {
				return fmt.Sprintf("badinit is %+v", bad.Status)
			}
			return ""
		})
	}
	waitEnds("at first")
	p := n.pod("late")
	if took := app(p).State.Terminated.FinishedAt.Sub(p.Status.StartTime.Time); took < deadline*time.Second || took > (deadline+3)*time.Second {
		t.Errorf("it was ended after %s", took)
	}
	n.waitEvent(p, event.DeadlineExceeded)
	before := n.everMade()

	// when the agent is killed and started again, then all is as it was
	n.crash()
	n.start()
	waitEnds("after a kill of the agent")
	n.mustNotRunAgain(before)

	// when the runtime is killed, then likewise
	pid := n.containerdPID()
	kill(t, pid)
	n.wait("another containerd", startLimit, func() string { return boolText(n.containerdPID() != pid) })
	n.apply("more.yaml", newPod("more", "sleep"))
	n.waitRunning("more")
	waitEnds("after a kill of the runtime")
	n.remove("more.yaml")
	n.waitGone("more")
	n.mustNotRunAgain(before)

	// when both are, then likewise
	n.crash()
	kill(t, n.containerdPID())
	n.start()
	waitEnds("after both were killed")
	n.mustNotRunAgain(before)

	// when they are removed, then nothing is left
	n.remove("pods.yaml")
	n.waitGone("done", "told", "failed", "fallback", "badinit", "late")
	n.mustHaveNothing()
}

// everMade are the containers that the runtime holds, dead or alive.
func (n *node) everMade() map[string]string {
	n.t.Helper()
	out := map[string]string{}
	for _, c := range n.containers() {
		out[c.Id] = fmt.Sprintf("%s attempt %d %s", c.Metadata.Name, c.Metadata.Attempt, c.State)
	}
	return out
}

func (n *node) mustNotRunAgain(before map[string]string) {
	n.t.Helper()
	if after := n.everMade(); !maps.Equal(before, after) {
		n.t.Errorf("the containers were\n\t%v\nand are\n\t%v", before, after)
	}
}
