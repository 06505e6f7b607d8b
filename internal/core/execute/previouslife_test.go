package execute

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// fromFolder makes p a static pod.
func fromFolder(p *v1.Pod) *v1.Pod {
	p.Annotations = map[string]string{pod.AnnotationSource: pod.SourceFile}
	return p
}

// shownRestarts is how often the container app was restarted, as readers see it.
func (n *node) shownRestarts(p *v1.Pod) int32 {
	n.t.Helper()
	s, _ := n.Reports.Statuses.Get(p.UID)
	return s.ContainerStatuses[0].RestartCount
}

// restartAgent forgets all that is not on disk or in the runtime.
func (n *node) restartAgent() {
	n.memories.pods = map[pod.UID]*memory{}
	n.Reports.Statuses.Forget("a")
}

func TestWhatTheAgentStoppedDidNotCrash(t *testing.T) {
	for name, between := range map[string]func(n *node){
		"the same agent": func(*node) {},
		"the next agent": (*node).restartAgent,
		"the same agent, which could not write it down": func(n *node) {
			if err := os.Remove(filepath.Join(n.Host.PodsDir, "a", previousLifeFile)); err != nil {
				n.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, 1, func(n *node) {
				p := fromFolder(web("a", "app"))
				n.settle(p)
				n.exit(p, "app", 1)
				n.settle(p)
				if n.shownRestarts(p) != 1 {
					t.Fatalf("it crashed once, and has %d restarts", n.shownRestarts(p))
				}
				for range 3 {
					n.endedBy(p, goesDown)
					between(n)
					n.settle(p)
					n.expectState(p, "app", "running")
					if n.shownRestarts(p) != 0 {
						t.Errorf("it has %d restarts", n.shownRestarts(p))
					}
				}
			})
		})
	}
}

// An agent that dies before it has stopped anything leaves a pod whose life goes on.
func TestALifeThatWasNotEndedGoesOn(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := fromFolder(web("a", "app"))
		n.settle(p)
		n.exit(p, "app", 1)
		n.settle(p)
		n.recordPreviousLife(&task{pod: p, have: n.have(p), memory: n.memories.get("a")}, goesDown)
		n.restartAgent()
		n.settle(p)
		if n.shownRestarts(p) != 1 || n.runtime.Calls("RunSandbox") != 1 {
			t.Errorf("it has %d restarts, and %d sandboxes were made", n.shownRestarts(p), n.runtime.Calls("RunSandbox"))
		}
		n.exit(p, "app", 1)
		n.settle(p)
		if n.shownRestarts(p) != 1 || n.state(p, "app")[:5] != "Crash" {
			t.Errorf("its crash is not one: %d restarts, %s", n.shownRestarts(p), n.state(p, "app"))
		}
	})
}

func TestARecordThatCanNotBeReadKeepsNoPodFromRunning(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := fromFolder(web("a", "app"))
		n.settle(p)
		n.endedBy(p, goesDown)
		if err := os.WriteFile(filepath.Join(n.Host.PodsDir, "a", previousLifeFile), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.restartAgent()
		n.settle(p)
		n.expectState(p, "app", "running")
	})
}

// A pod that failed for good before it was stopped says so to the next agent, too.
func TestAnEndStaysAnEndForTheNextAgent(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := fromFolder(web("a", "app"))
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.InitContainers = []v1.Container{{Name: "setup", Image: "setup"}}
		n.settle(p)
		n.exit(p, "setup", 3)
		n.endedBy(p, goesDown)
		n.restartAgent()
		if outcome := n.settle(p); !outcome.Finished {
			t.Errorf("got %+v", outcome)
		}
		s, _ := n.Reports.Statuses.Get("a")
		if end := s.InitContainerStatuses[0].State.Terminated; s.Phase != v1.PodFailed || end == nil || end.ExitCode != 3 {
			t.Errorf("got %+v", s)
		}
	})
}
