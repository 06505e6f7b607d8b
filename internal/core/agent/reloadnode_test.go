package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/core/admit"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// choosy is a pod for nodes with fast disks.
func choosy(uid pod.UID) *v1.Pod {
	p := bound(uid)
	p.Spec.NodeSelector = map[string]string{"disk": "fast"}
	return p
}

func hasFastDisks(m *admit.Node) { m.Labels = map[string]string{"disk": "fast"} }

// isLate makes the watch of the node show an old Node: it has a label that only a read returns,
// which takes a second. The result counts the reads.
func (n *node) isLate() *atomic.Int32 {
	reads := &atomic.Int32{}
	n.machine.Labels = map[string]string{"disk": "slow"}
	n.reread = func(context.Context) error {
		reads.Add(1)
		time.Sleep(time.Second)
		n.becomes(hasFastDisks)
		return nil
	}
	return reads
}

func TestNoPodIsRejectedForLabelsThatAWatchHasYetToShow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.isLate()
		n.binds(choosy("a"))
		n.expectPhase("a", v1.PodPending)

		// while the node is read, others start
		n.binds(choosy("a"), bound("b"))
		n.expectPhase("b", v1.PodRunning)
		time.Sleep(time.Second)
		n.expectPhase("a", v1.PodRunning)
	})
}

func TestNoPodIsRejectedForTaintsThatAreGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.machine.Taints = []v1.Taint{{Key: "broken", Effect: v1.TaintEffectNoExecute}}
		n.reread = func(context.Context) error {
			n.becomes(func(m *admit.Node) { m.Taints = nil })
			return nil
		}
		n.binds(bound("a"))
		n.expectPhase("a", v1.PodRunning)
	})
}

func TestAPodIsRejectedForWhatIsKnownIfTheNodeCanNotBeRead(t *testing.T) {
	for name, read := range map[string]func(context.Context) error{
		"nobody answers":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"it is refused":   func(context.Context) error { return errors.New("forbidden") },
		"it is as it was": func(context.Context) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := startNode(t, fake.New(testImage), t.TempDir())
				defer n.stop()
				n.machine.Labels = map[string]string{"disk": "slow"}
				n.reread = read
				n.binds(choosy("a"))
				time.Sleep(10 * time.Second)
				n.expectPhase("a", v1.PodFailed)
				if reason := n.pod("a").Status.Reason; reason != "NodeAffinity" {
					t.Errorf("it was rejected as %s", reason)
				}
			})
		})
	}
}

func TestOneReadOfTheNodeServesAllWaitingPods(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		reads := n.isLate()
		var pods []*v1.Pod
		for i := range 100 {
			pods = append(pods, choosy(pod.UID(fmt.Sprintf("p%02d", i))))
		}
		n.binds(pods...)
		time.Sleep(time.Minute)
		for _, p := range pods {
			n.expectPhase(p.UID, v1.PodRunning)
		}
		if got := reads.Load(); got > 2 {
			t.Errorf("the node was read %d times", got)
		}
	})
}

// A read that is under way may have missed the label for whose sake the pod came.
func TestAPodThatComesDuringAReadOfTheNodeWaitsForTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.machine.Labels = map[string]string{"disk": "slow"}
		reads := 0
		n.reread = func(context.Context) error {
			time.Sleep(time.Second)
			if reads++; reads == 2 {
				n.becomes(hasFastDisks)
			}
			return nil
		}
		early, late := choosy("early"), choosy("late")
		n.binds(early)
		n.binds(early, late)
		time.Sleep(time.Second)
		n.expectPhase("early", v1.PodFailed)
		n.expectPhase("late", v1.PodPending)
		time.Sleep(time.Second)
		n.expectPhase("late", v1.PodRunning)
	})
}

func TestAPodThatIsDeletedWhileTheNodeIsReadIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.isLate()
		deleted := choosy("a")
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		n.binds(choosy("a"), choosy("b"))
		n.binds(deleted) // and b is gone
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := n.upstream.Released(); len(got) != 1 || got[0] != deleted.Name {
			t.Errorf("released %v", got)
		}
		if made := n.runtime.Calls("RunSandbox"); made != 0 {
			t.Errorf("%d sandboxes were made", made)
		}
	})
}
