package agent_test

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cluster/shutdown"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// drains returns a manager that can drain the node.
func (n *node) drains() *shutdown.Manager {
	n.t.Helper()
	m, err := shutdown.New(shutdown.Config{Pods: n.pool, Gate: n.agent, Log: slog.New(slog.DiscardHandler)})
	must(n.t, err)
	return m
}

func (n *node) drained(m *shutdown.Manager) {
	n.t.Helper()
	late, err := m.Drain(n.t.Context(), shutdown.Order{}, func(shutdown.Progress) {})
	must(n.t, err)
	if len(late) > 0 {
		n.t.Fatalf("late: %v", late)
	}
	synctest.Wait()
	all, err := n.runtime.List(n.t.Context())
	must(n.t, err)
	for _, o := range all {
		if o.Running() {
			n.t.Fatalf("%s still runs", o.Name)
		}
	}
}

func (n *node) undone(m *shutdown.Manager) {
	n.t.Helper()
	must(n.t, m.Undo(n.t.Context()))
	synctest.Wait()
}

// bound is a pod of an API server.
func bound(uid pod.UID) *v1.Pod {
	p := webPod(uid)
	p.Annotations[pod.AnnotationSource] = pod.SourceAPI
	return p
}

func TestADrainedNodeRunsNothingUntilThatIsUndone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given pods of a folder and of an API server
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		m := n.drains()
		n.wants(webPod("box"))
		n.binds(bound("web"))
		n.runtime.Delay("StopContainer", 2*time.Second)

		// when the node is drained, then both have ended, and say why
		n.drained(m)
		for _, uid := range []pod.UID{"box", "web"} {
			n.expectPhase(uid, v1.PodFailed)
			s := n.pod(uid).Status
			disrupted := slices.ContainsFunc(s.Conditions, func(c v1.PodCondition) bool {
				return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == "TerminationByKubelet"
			})
			if s.Reason != "Terminated" || !disrupted {
				t.Errorf("%s: %+v", uid, s)
			}
		}

		// and new ones do not start
		n.wants(webPod("box"), webPod("later"), webPod("gone"))
		n.wants(webPod("box"), webPod("later"))
		n.binds(bound("web"), bound("late"))
		n.expectPhase("late", v1.PodFailed)
		if s := n.pod("late").Status; s.Reason != "NodeShutdown" {
			t.Errorf("got %+v", s)
		}
		n.expectPhase("later", v1.PodPending)
		if s := n.pod("later").Status; s.Reason != "NodeShutdown" || s.Message == "" {
			t.Errorf("got %+v", s)
		}
		time.Sleep(time.Hour)
		if made := n.runtime.Calls("RunSandbox"); made != 2 {
			t.Errorf("%d sandboxes were made", made)
		}

		// when that is undone, then static pods run again, and the others stay ended
		n.undone(m)
		n.expectPhase("box", v1.PodRunning)
		n.expectPhase("later", v1.PodRunning)
		n.expectPhase("web", v1.PodFailed)
		n.expectPhase("late", v1.PodFailed)
		if c := n.app("box"); c.RestartCount != 0 || c.LastTerminationState.Terminated == nil {
			t.Errorf("it counts as a crash, or its end is forgotten: %+v", c)
		}
		if s := n.pod("box").Status; s.Reason != "" || s.Message != "" {
			t.Errorf("got %+v", s)
		}
		n.binds(bound("web"), bound("late"), bound("next"))
		n.expectPhase("next", v1.PodRunning)

		// and it can be done again
		n.drained(m)
		n.undone(m)
		n.expectPhase("later", v1.PodRunning)
	})
}

func TestAPodIsDrainedWhileItStarts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		m := n.drains()
		n.runtime.Delay("RunSandbox", 10*time.Second)
		n.wants(webPod("box"))
		n.expectPhase("box", v1.PodPending)
		n.drained(m)
		n.expectPhase("box", v1.PodFailed)
		n.undone(m)
		time.Sleep(10 * time.Second)
		n.expectPhase("box", v1.PodRunning)
	})
}

func TestAnEditedPodThatWaitsForItsPredecessorDoesNotStartOnADrainedNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		m := n.drains()
		n.runtime.Delay("StopContainer", 5*time.Second)
		old, edited := webPod("old"), webPod("new")
		edited.Name = old.Name
		n.wants(old)
		n.expectPhase("old", v1.PodRunning)
		n.wants(edited) // the old one is being stopped
		n.drained(m)
		time.Sleep(time.Minute)
		n.expectPhase("new", v1.PodPending)
		n.undone(m)
		n.expectPhase("new", v1.PodRunning)
	})
}

func TestAnEndedJobDoesNotRunAgainAfterADrain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		m := n.drains()
		job, long := webPod("job"), webPod("long")
		job.Spec.RestartPolicy, long.Spec.RestartPolicy = v1.RestartPolicyNever, v1.RestartPolicyNever
		n.wants(job, long)
		must(t, n.runtime.Exit("job", "app", 0))
		n.expectPhase("job", v1.PodSucceeded)
		n.drained(m)
		n.undone(m)
		n.expectPhase("job", v1.PodSucceeded)
		n.expectPhase("long", v1.PodFailed) // it was cut short, and must not run twice
		if s := n.pod("long").Status; s.Reason != "Terminated" {
			t.Errorf("got %+v", s)
		}
		if made := n.runtime.Calls("CreateContainer"); made != 2 {
			t.Errorf("%d containers were made", made)
		}
	})
}

func TestAnUndoneDrainWaitsForWhatIsBeingStopped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		m := n.drains()
		n.runtime.Delay("StopContainer", 5*time.Second)
		n.wants(webPod("box"))
		go func() { _, _ = m.Drain(t.Context(), shutdown.Order{}, func(shutdown.Progress) {}) }()
		synctest.Wait()
		n.undone(m)
		time.Sleep(10 * time.Second)
		n.expectPhase("box", v1.PodRunning)
		if c := n.app("box"); c.RestartCount != 0 || c.LastTerminationState.Terminated == nil {
			t.Errorf("got %+v", c)
		}
	})
}

func TestTheNextAgentIsNotDrained(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir, r := t.TempDir(), fake.New(testImage)
		n := startNode(t, r, dir)
		n.wants(webPod("box"))
		n.drained(n.drains())
		n.stop()
		n = startNode(t, r, dir)
		defer n.stop()
		n.wants(webPod("box"))
		n.expectPhase("box", v1.PodRunning)
	})
}
