package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// warmsUp is a pod with a postStart hook.
func warmsUp(uid pod.UID) *v1.Pod {
	p := webPod(uid)
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: exec("warmup")}
	return p
}

// noAnswer lets the postStart hooks of the node be without an answer.
func (n *node) noAnswer() {
	n.hooks.SetError("warmup", fmt.Errorf("exec in container: %w", pod.ErrNoAnswer))
}

// expectWaiting checks that the postStart hook of a pod is waited for.
func (n *node) expectWaiting(uid pod.UID) {
	n.t.Helper()
	c := n.app(uid)
	if c.State.Waiting == nil || c.State.Waiting.Reason != pod.ReasonContainerCreating || !strings.Contains(c.State.Waiting.Message, "the container runtime does not answer") || c.Ready || *c.Started {
		n.t.Fatalf("it is not known how its hook ended: %+v", c)
	}
	if stops := n.runtime.Stops(); len(stops) > 0 {
		n.t.Fatalf("stopped: %v", stops)
	}
	for _, e := range n.events.All() {
		if strings.HasPrefix(e, "FailedPostStartHook") {
			n.t.Fatalf("its hook is not known to have failed: %s", e)
		}
	}
}

func TestAPostStartHookWithoutAnAnswerIsRunAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given a hook that the runtime says nothing of
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.noAnswer()
		n.wants(warmsUp("a"))
		n.expectWaiting("a")
		time.Sleep(time.Hour)
		n.expectWaiting("a")
		ran := len(n.hooks.Ran())
		if ran < 10 || ran > 300 {
			t.Fatalf("the hook was run %d times in an hour", ran)
		}

		// when the runtime answers, then the same container is up
		n.hooks.SetError("warmup", nil)
		time.Sleep(time.Minute)
		n.expectPhase("a", v1.PodRunning)
		if c := n.app("a"); !c.Ready || c.RestartCount != 0 || n.runtime.Calls("StartContainer") != 1 {
			t.Fatalf("it was started %d times: %+v", n.runtime.Calls("StartContainer"), c)
		}
		ran = len(n.hooks.Ran())
		time.Sleep(time.Hour)
		if got := len(n.hooks.Ran()); got != ran {
			t.Fatalf("the hook succeeded, and was run %d times after that", got-ran)
		}
	})
}

func TestAPostStartHookThatFailsInTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.noAnswer()
		n.wants(warmsUp("a"))
		n.expectWaiting("a")

		// when the hook fails, and the runtime does not answer that its container is to be stopped
		n.hooks.SetError("warmup", errors.New("too cold"))
		n.runtime.Fail("StopContainer", pod.ErrNoAnswer)
		time.Sleep(time.Minute)
		if c := n.app("a"); c.State.Waiting == nil || c.State.Waiting.Reason != pod.ReasonPostStartHookError || c.Ready {
			t.Fatalf("its hook failed: %+v", c)
		}
		ran := len(n.hooks.Ran())
		if !slices.Contains(n.events.All(), "FailedPostStartHook PostStartHook failed: too cold") {
			t.Fatalf("events %v", n.events.All())
		}

		// then it is stopped as soon as that can be, and not kept
		n.hooks.SetError("warmup", nil)
		n.runtime.Fail("StopContainer", nil)
		time.Sleep(time.Minute)
		n.expectPhase("a", v1.PodRunning)
		if c := n.app("a"); c.RestartCount != 1 || len(n.hooks.Ran()) != ran+1 {
			t.Fatalf("it runs its hook %d times more, and is %+v", len(n.hooks.Ran())-ran, c)
		}
	})
}

func TestAContainerThatEndsBeforeItsPostStartHookIsRestarted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.noAnswer()
		n.wants(warmsUp("a"))
		n.expectWaiting("a")
		n.hooks.SetError("warmup", nil)
		must(t, n.runtime.Exit("a", "app", 1))
		time.Sleep(time.Minute)
		n.expectPhase("a", v1.PodRunning)
		if c := n.app("a"); !c.Ready || c.RestartCount != 1 {
			t.Fatalf("it is %+v", c)
		}
	})
}

func TestAPodDoesNotWaitForItsPostStartHookToGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.noAnswer()
		n.wants(warmsUp("a"))
		n.expectWaiting("a")
		n.wants()
		time.Sleep(time.Second)
		synctest.Wait()
		if pods, _ := n.agent.List(); len(pods) > 0 {
			t.Fatalf("it is still there: %+v", pods[0].Status)
		}
	})
}

// The call that starts a container may be without an answer, too, and the hook is owed all the same.
func TestAContainerWhoseStartHadNoAnswerHasItsHook(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		n := startNode(t, r, t.TempDir())
		defer n.stop()
		r.LoseStart()
		n.wants(warmsUp("a"))
		time.Sleep(time.Minute)
		n.expectPhase("a", v1.PodRunning)
		if c := n.app("a"); !c.Ready || c.RestartCount != 0 || !slices.Equal(n.hooks.Ran(), []string{"warmup"}) {
			t.Fatalf("hooks %v of %+v", n.hooks.Ran(), c)
		}
	})
}

func TestAnotherAgentRunsAPostStartHookThatDidNotEnd(t *testing.T) {
	for name, interrupted := range map[string]bool{"without an answer": false, "while it runs": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r, dir := fake.New(testImage), t.TempDir()
				n := startNode(t, r, dir)
				if interrupted {
					n.hooks.SetDuration("warmup", time.Hour)
				} else {
					n.noAnswer()
				}
				n.wants(warmsUp("a"))
				time.Sleep(time.Minute)
				n.stop()

				n = startNode(t, r, dir)
				n.noAnswer()
				n.wants(warmsUp("a"))
				n.expectWaiting("a")
				n.hooks.SetError("warmup", nil)
				time.Sleep(time.Minute)
				n.expectPhase("a", v1.PodRunning)
				if c := n.app("a"); !c.Ready || c.RestartCount != 0 {
					t.Fatalf("it is %+v", c)
				}
				n.stop()

				// and a third one has nothing to do
				n = startNode(t, r, dir)
				defer n.stop()
				n.wants(warmsUp("a"))
				n.expectPhase("a", v1.PodRunning)
				if ran := n.hooks.Ran(); len(ran) > 0 {
					t.Fatalf("run again: %v", ran)
				}
			})
		})
	}
}

func TestASidecarHoldsThePodUntilItsPostStartHookIsDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.noAnswer()
		p := withInit(webPod("a"), "", "mesh")
		p.Spec.InitContainers[0].Lifecycle = &v1.Lifecycle{PostStart: exec("warmup")}
		n.wants(p)
		time.Sleep(time.Hour)
		if n.runtime.Calls("StartContainer") != 1 {
			t.Fatalf("%d containers were started", n.runtime.Calls("StartContainer"))
		}
		n.hooks.SetError("warmup", nil)
		time.Sleep(time.Minute)
		n.expectPhase("a", v1.PodRunning)
	})
}

func TestAPreStopHookWithoutAnAnswerIsRunAgainWhileThereIsTime(t *testing.T) {
	for name, tc := range map[string]struct {
		silence time.Duration
		most    time.Duration // from the end of the silence until the pod is gone
		again   bool
	}{
		"the runtime is back within the grace period": {10 * time.Second, 20 * time.Second, true},
		"the grace period is over":                    {10 * time.Minute, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := startNode(t, fake.New(testImage), t.TempDir())
				defer n.stop()
				p := webPod("a")
				p.Spec.TerminationGracePeriodSeconds = new(int64(30))
				p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: exec("drain")}
				n.wants(p)
				n.expectPhase("a", v1.PodRunning)

				// when the runtime does not answer, then the stop is tried again, and so is the hook
				n.hooks.SetError("drain", pod.ErrNoAnswer)
				n.runtime.Fail("StopContainer", pod.ErrNoAnswer)
				n.wants()
				time.Sleep(tc.silence)
				ran := len(n.hooks.Ran())
				if ran < 2 || ran > 10 {
					t.Fatalf("it was run %d times", ran)
				}
				for _, e := range n.events.All() {
					if strings.HasPrefix(e, "FailedPreStopHook") && !strings.Contains(e, "not known") {
						t.Fatalf("its hook is not known to have failed: %s", e)
					}
				}

				// when the runtime is back, then the pod goes
				n.hooks.SetError("drain", nil)
				n.runtime.Fail("StopContainer", nil)
				time.Sleep(tc.most)
				synctest.Wait()
				if pods, _ := n.agent.List(); len(pods) > 0 {
					t.Fatalf("it is still there: %+v", pods[0].Status)
				}
				if again := len(n.hooks.Ran()) > ran; again != tc.again {
					t.Errorf("the hook was run after that: %t", again)
				}
			})
		})
	}
}
