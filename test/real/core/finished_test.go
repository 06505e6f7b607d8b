//go:build real

package core

import (
	"fmt"
	"maps"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
	"berth/test/real/kit"
)

func TestFinishedPodsStayFinished(t *testing.T) {
	t.Parallel()
	// given pods that end, each in its own way
	const deadline = 12 // seconds: on a busy machine, it takes some to start it
	n := kit.NewNode(t)
	fallback := kit.WithRestartPolicy(v1.RestartPolicyNever, kit.NewPod("fallback", "complain", "out of luck", "5"))
	fallback.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	badInit := kit.WithRestartPolicy(v1.RestartPolicyNever, kit.NewPod("badinit", "sleep"))
	badInit.Spec.InitContainers = []v1.Container{kit.NewContainer("init", "lastwords", "can't begin", "7")}
	late := kit.NewPod("late", "activity", "app", "0s")
	late.Spec.ActiveDeadlineSeconds = new(int64(deadline))
	n.Apply("pods.yaml",
		kit.WithRestartPolicy(v1.RestartPolicyNever, kit.NewPod("done", "exit", "0")),
		kit.WithRestartPolicy(v1.RestartPolicyOnFailure, kit.NewPod("told", "lastwords", "all is well", "0")),
		kit.WithRestartPolicy(v1.RestartPolicyNever, kit.NewPod("failed", "lastwords", "disk is full", "3")),
		fallback, badInit, late,
	)
	n.Start()

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
		out, pods := map[string]end{}, n.Pods()
		for name := range want {
			e := end{phase: pods[name].Status.Phase, why: pods[name].Status.Reason}
			if c := kit.AppStatus(pods[name]).State.Terminated; c != nil {
				e.code, e.containerReason, e.lastWords = c.ExitCode, c.Reason, c.Message
			}
			out[name] = e
		}
		return out, pods["badinit"]
	}
	waitEnds := func(when string) {
		t.Helper()
		n.Wait("the ends of all pods "+when, kit.StartTimeout, func() string {
			got, bad := ends()
			if !maps.Equal(got, want) {
				return fmt.Sprintf("%+v", got)
			}
			init := bad.Status.InitContainerStatuses
			if bad.Status.Phase != v1.PodFailed || len(init) != 1 || init[0].State.Terminated == nil || init[0].State.Terminated.Message != "can't begin" ||
				kit.AppStatus(bad).State.Waiting == nil {
				return fmt.Sprintf("badinit is %+v", bad.Status)
			}
			return ""
		})
	}
	waitEnds("at first")
	p := n.Pod("late")
	if took := kit.AppStatus(p).State.Terminated.FinishedAt.Sub(p.Status.StartTime.Time); took < deadline*time.Second || took > (deadline+3)*time.Second {
		t.Errorf("it was ended after %s", took)
	}
	n.WaitEvent(p, event.DeadlineExceeded)
	before := everMade(n)

	// when the agent is killed and started again, then all is as it was
	n.KillAgent()
	n.Start()
	waitEnds("after a kill of the agent")
	mustNotRunAgain(n, before)

	// when the runtime is killed, then likewise
	pid := n.ContainerdPID()
	kit.KillProcess(t, pid)
	n.Wait("another containerd", kit.StartTimeout, func() string { return kit.MissingUnless(n.ContainerdPID() != pid) })
	n.Apply("more.yaml", kit.NewPod("more", "sleep"))
	n.WaitRunning("more")
	waitEnds("after a kill of the runtime")
	n.RemoveManifest("more.yaml")
	n.WaitGone("more")
	mustNotRunAgain(n, before)

	// when both are, then likewise
	n.KillAgent()
	kit.KillProcess(t, n.ContainerdPID())
	n.Start()
	waitEnds("after both were killed")
	mustNotRunAgain(n, before)

	// when they are removed, then nothing is left
	n.RemoveManifest("pods.yaml")
	n.WaitGone("done", "told", "failed", "fallback", "badinit", "late")
	mustHaveNothing(n)
}

// everMade are the containers that the runtime holds, dead or alive.
func everMade(n *kit.Node) map[string]string {
	n.T.Helper()
	out := map[string]string{}
	for _, c := range n.Containers() {
		out[c.Id] = fmt.Sprintf("%s attempt %d %s", c.Metadata.Name, c.Metadata.Attempt, c.State)
	}
	return out
}

func mustNotRunAgain(n *kit.Node, before map[string]string) {
	n.T.Helper()
	if after := everMade(n); !maps.Equal(before, after) {
		n.T.Errorf("the containers were\n\t%v\nand are\n\t%v", before, after)
	}
}
