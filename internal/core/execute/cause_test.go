package execute

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

var goesDown = pod.Cause{Description: "the machine goes down", Reason: "Terminated", Message: "shutdown", Disruption: "down", Passing: true}

// endedBy stops a pod for a cause, until nothing of it runs.
func (n *node) endedBy(p *v1.Pod, cause pod.Cause) v1.PodStatus {
	n.t.Helper()
	for range 5 {
		done, err := n.Stop(n.t.Context(), p, n.have(p), 30*time.Second, cause)
		if err != nil {
			n.t.Fatal(err)
		}
		s, _ := n.Reports.Statuses.Get(p.UID)
		if done {
			return s
		}
	}
	n.t.Fatal("it never stops")
	return v1.PodStatus{}
}

func hasDisruption(s v1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == v1.DisruptionTarget {
			return c.Status == v1.ConditionTrue && c.Reason == "TerminationByKubelet" && c.Message == "down"
		}
	}
	return false
}

func TestAPodThatTheAgentEndsSaysWhy(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		got := n.endedBy(p, goesDown)
		if got.Phase != v1.PodFailed || got.Reason != "Terminated" || got.Message != "shutdown" || !hasDisruption(got) {
			t.Fatalf("got %+v", got)
		}
		if got = n.endedBy(p, pod.Cause{Reason: "Evicted"}); got.Reason != "Terminated" {
			t.Fatalf("the first reason stays, got %q", got.Reason)
		}
	})
}

func TestAPodThatNeverRanSaysWhyItIsEnded(t *testing.T) {
	onNode(t, 1, func(n *node) {
		got := n.endedBy(web("a", "app"), goesDown)
		if got.Phase != v1.PodFailed || got.Reason != "Terminated" {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestAPodThatItsSourceGaveUpEndsAsItsContainersDo(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		got := n.endedBy(p, pod.Cause{Description: "its source no longer has it"})
		if got.Reason != "" || hasDisruption(got) {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestAPodThatEndedByItselfBeforeKeepsItsEnd(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		n.settle(p)
		n.exit(p, "app", 0) // which was not observed yet
		if got := n.endedBy(p, goesDown); got.Phase != v1.PodSucceeded || got.Reason != "" || hasDisruption(got) {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestAPodThatRunsAgainForgetsItsEnd(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		n.endedBy(p, goesDown)
		time.Sleep(time.Hour)
		n.settle(p)
		got, _ := n.Reports.Statuses.Get("a")
		if got.Phase != v1.PodRunning || got.Reason != "" || hasDisruption(got) || got.ContainerStatuses[0].RestartCount != 1 {
			t.Fatalf("got %+v", got)
		}
		if n.upstream.Published(p.Name).Phase != v1.PodRunning {
			t.Fatal("it was not reported")
		}
		if got := n.endedBy(p, goesDown); got.Phase != v1.PodFailed || got.Reason != "Terminated" {
			t.Fatalf("and it can end again: got %+v", got)
		}
	})
}

func TestAPodThatHasNothingLeftToDoKeepsItsLastWords(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		n.settle(p)
		n.endedBy(p, goesDown)
		if outcome := n.settle(p); !outcome.Finished {
			t.Fatalf("got %+v", outcome)
		}
		if got, _ := n.Reports.Statuses.Get("a"); got.Phase != v1.PodFailed || got.Reason != "Terminated" {
			t.Fatalf("got %+v", got)
		}
	})
}
