package agent_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// remembers sends the pods that the folder had before the agent was restarted, as RESTORE.
func (n *node) remembers(unreadable bool, pods ...*v1.Pod) {
	n.t.Helper()
	n.snapshots <- pod.Snapshot{Source: pod.SourceFile, Op: pod.Restore, Pods: pods, Unreadable: unreadable}
	synctest.Wait()
}

func TestARestoredPodThatDoesNotRunWaitsForItsSource(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given an agent that remembers a pod that runs, and two that do not
		dir, r := t.TempDir(), fake.New(testImage)
		n := startNode(t, r, dir)
		n.wants(webPod("runs"))
		n.stop()
		n = startNode(t, r, dir)
		defer n.stop()
		n.remembers(false, webPod("runs"), webPod("removed"), webPod("stays"))

		// then the first goes on, and the others wait, however long it takes
		time.Sleep(time.Hour)
		n.expectPhase("runs", v1.PodRunning)
		n.expectPhase("removed", v1.PodPending)
		n.expectPhase("stays", v1.PodPending)
		if reason := n.pod("stays").Status.Reason; reason != "SourceNotRead" {
			t.Errorf("it waits for %q", reason)
		}
		if made := r.Calls("RunSandbox"); made != 1 {
			t.Fatalf("%d sandboxes were made, want 1", made)
		}

		// when the folder is read, then those run that it still has
		n.wants(webPod("runs"), webPod("stays"))
		n.expectPhase("stays", v1.PodRunning)
		if made := r.Calls("RunSandbox"); made != 2 {
			t.Errorf("%d sandboxes were made, want 2", made)
		}
		if pods, _ := n.agent.List(); len(pods) != 2 {
			t.Errorf("there are %d pods, want 2", len(pods))
		}
	})
}

func TestARestoredPodRunsIfItsSourceCanNotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.remembers(false, webPod("box"))
		n.expectPhase("box", v1.PodPending)
		n.remembers(true, webPod("box"))
		n.expectPhase("box", v1.PodRunning)
	})
}

func TestADrainThatIsUndoneDoesNotStartWhatWaitsForItsSource(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		m := n.drains()
		n.remembers(false, webPod("box"))
		n.drained(m)
		n.undone(m)
		n.expectPhase("box", v1.PodPending)

		// Nor does the source start what a drain holds back.
		n.drained(m)
		n.wants(webPod("box"))
		n.expectPhase("box", v1.PodPending)
		n.undone(m)
		n.expectPhase("box", v1.PodRunning)
	})
}

func TestRestoredPodsAreSortedOutWhenTheRuntimeAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given an agent that remembers a pod that runs and one that does not, while the runtime hangs
		n, release, before := hungNode(t)
		defer n.stop()
		n.remembers(false, webPod("a"), webPod("b"))
		n.expectPhase("a", v1.PodUnknown)
		n.expectPhase("b", v1.PodUnknown)

		// when it answers, then the first goes on, and the other waits for its source
		release()
		time.Sleep(time.Minute)
		n.expectPhase("a", v1.PodRunning)
		n.expectPhase("b", v1.PodPending)
		if after := n.app("a"); after.ContainerID != before.ContainerID {
			t.Errorf("it was %+v and is %+v", before, after)
		}
		if reason := n.pod("b").Status.Reason; reason != "SourceNotRead" {
			t.Errorf("it waits for %q", reason)
		}
		n.wants(webPod("a"), webPod("b"))
		n.expectPhase("b", v1.PodRunning)
	})
}

// A machine that was restarted has no container of the pod any more. What was added to it for
// debugging was for its life before, whichever comes first: the folder or the runtime.
func TestARestoredPodBeginsAnewWithoutItsDebugContainers(t *testing.T) {
	for name, listedFirst := range map[string]bool{"the runtime answers first": true, "the folder is read first": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				dir := t.TempDir()
				n := startNode(t, fake.New(testImage), dir)
				n.wants(webPod("a"))
				must(t, n.agent.AddContainer(t.Context(), webPod("a"), debugger("look")))
				n.stop()

				r := fake.New(testImage)
				release := r.Hold("List")
				n = startNode(t, r, dir)
				defer n.stop()
				n.remembers(false, webPod("a"))
				if listedFirst {
					release()
					synctest.Wait()
				}
				n.wants(webPod("a"))
				if !listedFirst {
					release()
					synctest.Wait()
				}
				n.expectPhase("a", v1.PodRunning)
				if got := n.debuggers("a"); got != "" || len(n.pod("a").Spec.EphemeralContainers) > 0 {
					t.Errorf("got %q, spec %v", got, n.pod("a").Spec.EphemeralContainers)
				}
			})
		})
	}
}
