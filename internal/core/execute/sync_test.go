package execute

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/image"
)

func TestAPodIsMadeAndThenLeftAlone(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app", "log")
		outcome, err := n.sync(p)
		if err != nil || !outcome.Again {
			t.Fatalf("got %+v, %v", outcome, err)
		}
		if outcome := n.settle(p); outcome != (pod.Outcome{}) {
			t.Errorf("a pod that is up asks for %+v", outcome)
		}
		n.expectState(p, "app", "running")
		n.expectState(p, "log", "running")
		for _, dir := range []string{"pods/a", "logs/default_web-a_a/app", "logs/default_web-a_a/log"} {
			if _, err := os.Stat(filepath.Join(n.dir, dir)); err != nil {
				t.Error(err)
			}
		}
		if n.runtime.Calls("RunSandbox") != 1 || n.runtime.Calls("StartContainer") != 2 {
			t.Error("something was made twice")
		}
	})
}

func TestASlotIsNotHeldWhileAnImageIsPulled(t *testing.T) {
	onNode(t, 1, func(n *node) {
		n.images.set("app", &image.State{Reason: "ErrImagePull", Message: "no route", Until: time.Now().Add(time.Minute)})
		first, second := web("a", "app", "log"), web("b", "log")
		outcome := n.settle(first)
		if !outcome.Due.Equal(time.Now().Add(time.Minute - time.Millisecond)) {
			t.Errorf("it comes back at %s", outcome.Due)
		}
		n.expectState(first, "app", "ErrImagePull: no route")
		n.expectState(first, "log", "running") // its neighbour does not wait

		n.settle(second) // would wait for ever for the slot
		n.expectState(second, "log", "running")
		n.images.set("app", nil)
		n.settle(first)
		n.expectState(first, "app", "running")
	})
}

func TestAFirstStartQueuesAndARestartDoesNot(t *testing.T) {
	onNode(t, 1, func(n *node) {
		old, young := web("a", "app"), web("b", "app")
		n.settle(old)
		release := acquire(n.t, n.Slots) // a burst of others is being started

		n.exit(old, "app", 1)
		n.settle(old)
		n.expectState(old, "app", "running")

		ctx, cancel := context.WithCancel(n.t.Context())
		var err error
		go func() { _, err = n.Sync(ctx, young, n.have(young)) }()
		synctest.Wait()
		if n.runtime.Calls("RunSandbox") != 1 {
			t.Fatal("a sandbox was made without a slot")
		}
		cancel() // it is deleted before its turn comes
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		release()
		n.settle(young)
	})
}

func TestAContainerThatFailsHoldsNoOtherBack(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "bad", "app")
		n.settle(p)
		n.exit(p, "app", 1)
		n.settle(p)
		n.runtime.Fail("CreateContainer", errors.New("disk full"))
		n.exit(p, "bad", 1)
		n.exit(p, "app", 1)
		time.Sleep(time.Hour)
		outcome, err := n.sync(p)
		if err == nil || strings.Count(err.Error(), "disk full") != 2 {
			t.Fatalf("both were tried, and both failed: %v", err)
		}
		if !outcome.Again {
			t.Error("the runtime may have changed")
		}
		n.expectState(p, "bad", "CreateContainerError: why: disk full")
		n.expectState(p, "app", "CreateContainerError: why: disk full")
		if o := n.have(p); len(o.Containers) != 2 {
			t.Errorf("dead ones pile up while another fails: %d are left", len(o.Containers))
		}
		n.runtime.Fail("CreateContainer", nil)
		n.settle(p)
		n.expectState(p, "bad", "running")
	})
}

func TestAContainerThatCanNotBeStartedIsMadeAnew(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.runtime.Fail("StartContainer", errors.New("no such file"))
		if _, err := n.sync(p); err == nil {
			t.Fatal("want an error")
		}
		n.expectState(p, "app", "RunContainerError: why: no such file")
		n.runtime.Fail("StartContainer", nil)
		n.settle(p)
		n.expectState(p, "app", "running")
		if o := n.have(p); len(o.Containers) != 1 || o.Containers[0].RestartCount != 0 || len(o.Sandboxes) != 1 {
			t.Errorf("got %+v", o)
		}
	})
}

func TestAPodWithoutANetworkOrASandboxSaysWhy(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.runtime.Fail("Ready", errors.New("no plugin"))
		if _, err := n.sync(p); err == nil || !strings.HasPrefix(err.Error(), "wait for the network: ") {
			t.Fatalf("got %v", err)
		}
		n.expectState(p, "app", "ContainerCreating: why: no plugin")

		host := web("b", "app")
		host.Spec.HostNetwork = true
		n.settle(host) // does not need it
		n.expectState(host, "app", "running")

		n.runtime.Fail("Ready", nil)
		n.runtime.Fail("RunSandbox", errors.New("no address left"))
		if _, err := n.sync(p); err == nil {
			t.Fatal("want an error")
		}
		n.expectState(p, "app", "ContainerCreating: why: no address left")
		n.runtime.Fail("RunSandbox", nil)
		n.settle(p)
	})
}

// A container that ended for good keeps its last words while the sandbox of its
// neighbour can't be made.
func TestAFailureIsNotedOnlyOnWaitingContainers(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "done", "app")
		p.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		n.settle(p)
		n.exit(p, "done", 0)
		if err := n.runtime.StopSandbox(n.t.Context(), n.have(p).Sandboxes[0].ID); err != nil {
			t.Fatal(err)
		}
		n.runtime.Fail("RunSandbox", errors.New("no address left"))
		if _, err := n.sync(p); err == nil {
			t.Fatal("want an error")
		}
		n.expectState(p, "done", "terminated")
		n.expectState(p, "app", "ContainerCreating: why: no address left")
	})
}

func TestNothingMoreIsBegunForAPodThatIsToBeStopped(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "one", "two", "three")
		n.runtime.Delay("CreateContainer", time.Second)
		ctx, cancel := context.WithCancel(n.t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel) // in the middle of the second
		if _, err := n.Sync(ctx, p, n.have(p)); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		running := 0
		for _, c := range n.have(p).Containers {
			if c.State != pod.ContainerRunning {
				t.Errorf("%s was left half-made", c.Name)
			}
			running++
		}
		if running != 2 {
			t.Errorf("%d run, want the two that were begun", running)
		}
	})
}

func TestACrashLoopWaitsAndKeepsOneDeadContainer(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		n.exit(p, "app", 1)
		n.settle(p)
		n.exit(p, "app", 1)
		outcome := n.settle(p)
		if wait := time.Until(outcome.Due).Round(time.Second); wait != 10*time.Second {
			t.Errorf("it waits %s", wait)
		}
		if got := n.state(p, "app"); !strings.HasPrefix(got, "CrashLoopBackOff: back-off 10s") {
			t.Errorf("got %q", got)
		}
		if o := n.have(p); len(o.Containers) != 1 {
			t.Errorf("%d containers are left", len(o.Containers))
		}
	})
}

func TestAFinishedPodIsSaidToBe(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		n.settle(p)
		n.exit(p, "app", 0)
		if outcome := n.settle(p); !outcome.Finished || outcome.Again {
			t.Errorf("got %+v", outcome)
		}
		if s, _ := n.Reports.Statuses.Get("a"); s.Phase != v1.PodSucceeded {
			t.Errorf("phase %s", s.Phase)
		}
	})
}

func TestTheLogOfARemovedContainerGoesWithIt(t *testing.T) {
	onNode(t, 1, func(n *node) {
		n.settle(web("a", "app", "former"))
		p := web("a", "app")
		have := n.have(p)
		former := have.Container("former")
		former.State, former.LogPath = pod.ContainerExited, filepath.Join(n.dir, "0.log")
		if err := os.WriteFile(former.LogPath, []byte("words"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Sync(n.t.Context(), p, have); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(former.LogPath); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}
