package execute

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// stop asks once for the end of a pod.
func (n *node) stop(p *v1.Pod) (bool, error) {
	n.t.Helper()
	return n.Stop(n.t.Context(), p, n.have(p), 30*time.Second, pod.Cause{Description: "a test wants it"})
}

// stopped stops a pod until nothing of it runs.
func (n *node) stopped(p *v1.Pod) {
	n.t.Helper()
	for range 5 {
		done, err := n.stop(p)
		if err != nil {
			n.t.Fatal(err)
		}
		if done {
			return
		}
	}
	n.t.Fatal("it never stops")
}

func (n *node) cleanup(p *v1.Pod) error {
	n.t.Helper()
	return n.Cleanup(n.t.Context(), p, n.have(p))
}

func TestContainersAreStoppedAllAtOnce(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "one", "two", "three")
		n.settle(p)
		n.runtime.Delay("StopContainer", 10*time.Second)
		began := time.Now()
		done, err := n.stop(p)
		if err != nil || done {
			t.Fatalf("it is done when it is seen to be: %t, %v", done, err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %s, want as long as one of them", took)
		}
		if done, err = n.stop(p); err != nil || !done {
			t.Fatalf("got %t, %v", done, err)
		}
		if n.runtime.Calls("StopContainer") != 3 || n.runtime.Calls("StopSandbox") != 1 {
			t.Error("what was stopped was stopped again")
		}
		n.expectState(p, "two", "terminated")
		if !slices.Equal(n.cgroups, []string{"/test/poda", "/test/burstable/poda", "/test/besteffort/poda"}) || !slices.Contains(n.images.released, "a") {
			t.Errorf("cgroups removed: %v; images released: %v", n.cgroups, n.images.released)
		}
	})
}

func TestAStopThatFailsSaysSoAndStopsTheOthers(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "one", "two")
		n.settle(p)
		n.runtime.Fail("StopContainer", errors.New("stuck"))
		done, err := n.stop(p)
		if done || err == nil || strings.Count(err.Error(), "stuck") != 2 {
			t.Fatalf("got %t, %v", done, err)
		}
		if n.runtime.Calls("StopSandbox") != 0 {
			t.Error("the sandbox must outlive its containers")
		}
		n.runtime.Fail("StopContainer", nil)
		n.stopped(p)
	})
}

func TestAStopDoesNotWaitForASlot(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		acquire(n.t, n.Slots)
		n.stopped(p)
	})
}

func TestAPodThatWaitsForAnImageCanBeStopped(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.runtime.Fail("CreateContainer", errors.New("disk full"))
		if _, err := n.sync(p); err == nil {
			t.Fatal("want an error")
		}
		n.stopped(p)
		n.expectState(p, "app", "ContainerCreating: ") // it no longer tries, so it no longer fails
		if notes := n.memories.get(p.UID).waiting; len(notes) != 0 {
			t.Errorf("still noted: %v", notes)
		}
	})
}

func TestEraseLeavesNothingAndMayBeDoneAgain(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app", "log")
		n.settle(p)
		n.exit(p, "app", 1)
		n.settle(p) // a dead container is left beside the living
		n.stopped(p)
		log := filepath.Join(n.dir, "logs/default_web-a_a/app/0.log")
		if err := os.WriteFile(log, []byte("words"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := n.cleanup(p); err != nil {
				t.Fatal(err)
			}
		}
		all, err := n.runtime.List(n.t.Context())
		if err != nil || len(all) != 0 {
			t.Errorf("the runtime still has %v, %v", all, err)
		}
		for _, dir := range []string{"pods", "logs"} {
			if left, err := os.ReadDir(filepath.Join(n.dir, dir)); err != nil || len(left) != 0 {
				t.Errorf("%s still has %v, %v", dir, left, err)
			}
		}
		if _, ok := n.Reports.Statuses.Get("a"); ok || !slices.Contains(n.forgotten, "a") {
			t.Error("somebody still knows of it")
		}
	})
}

func TestAnEraseThatFailedGoesOnWhereItStood(t *testing.T) {
	for _, call := range []string{"RemoveContainer", "RemoveSandbox"} {
		onNode(t, 1, func(n *node) {
			p := web("a", "app")
			n.settle(p)
			n.stopped(p)
			n.runtime.Fail(call, errors.New("stuck"))
			if err := n.cleanup(p); err == nil {
				t.Errorf("%s failed, and it was not reported", call)
			}
			if _, ok := n.Reports.Statuses.Get("a"); !ok {
				t.Error("its status must stay until all is gone")
			}
			n.runtime.Fail(call, nil)
			if err := n.cleanup(p); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestADirectoryWithAMountInItIsKept(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		n.stopped(p)
		data := filepath.Join(n.dir, "pods/a/data")
		if err := os.WriteFile(data, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.mounted = data
		if err := n.cleanup(p); err == nil || !strings.Contains(err.Error(), data) {
			t.Fatalf("got %v", err)
		}
		if _, err := os.Stat(data); err != nil {
			t.Error(err)
		}
		n.mounted = ""
		if err := n.cleanup(p); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNamesThatLeadOutOfTheDirectoriesAreRefused(t *testing.T) {
	onNode(t, 1, func(n *node) {
		precious := filepath.Join(n.dir, "precious")
		if err := os.MkdirAll(precious, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, edit := range map[string]func(*v1.Pod){
			"no UID":             func(p *v1.Pod) { p.UID = "" },
			"the directory":      func(p *v1.Pod) { p.UID = "." },
			"the one above":      func(p *v1.Pod) { p.UID = ".." },
			"one beside":         func(p *v1.Pod) { p.UID = "../precious" },
			"a name with slash":  func(p *v1.Pod) { p.Name = "x/../../precious" },
			"a namespace, too":   func(p *v1.Pod) { p.Namespace = "../precious" },
			"a path as a whole":  func(p *v1.Pod) { p.UID = pod.UID(precious) },
			"slashes in the end": func(p *v1.Pod) { p.UID = "a/" },
		} {
			orphan := web("a")
			edit(orphan)
			if err := n.Cleanup(n.t.Context(), orphan, pod.Observed{}); err == nil {
				t.Errorf("%s: nobody minded", name)
			}
		}
		if _, err := os.Stat(precious); err != nil {
			t.Error(err)
		}
	})
}

func TestNewWantsAllItNeeds(t *testing.T) {
	onNode(t, 1, func(n *node) {
		for name, drop := range map[string]func(*Config){
			"runtime":      func(c *Config) { c.Runtime = nil },
			"images":       func(c *Config) { c.Images = nil },
			"statuses":     func(c *Config) { c.Reports.Statuses = nil },
			"slots":        func(c *Config) { c.Slots = nil },
			"log":          func(c *Config) { c.Log = nil },
			"removeCgroup": func(c *Config) { c.Host.RemoveCgroup = nil },
			"removeDir":    func(c *Config) { c.Host.RemoveDir = nil },
			"explain":      func(c *Config) { c.RuntimeInfo.Explain = nil },
			"forget":       func(c *Config) { c.Reports.PodGone = nil },
			"pods":         func(c *Config) { c.Host.PodsDir = "" },
			"logs":         func(c *Config) { c.Node.LogsDir = "" },
			"backoff":      func(c *Config) { c.Backoff.Initial = 0 },
		} {
			c := n.config(1)
			drop(&c)
			if _, err := New(c); err == nil {
				t.Errorf("without %s it was made all the same", name)
			}
		}
	})
}

func TestAnEditReplacesNoMoreThanItMust(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app", "log")
		n.settle(p)
		before := n.have(p)

		p = p.DeepCopy()
		p.Spec.Containers[0].Image = "other"
		n.settle(p)
		after := n.have(p)
		if after.Container("log").ID != before.Container("log").ID || len(after.Sandboxes) != 1 {
			t.Error("its neighbour or its sandbox was replaced")
		}
		if app := after.Container("app"); app.State != pod.ContainerRunning || app.RestartCount != 1 || app.Image != "other" {
			t.Errorf("got %+v", app)
		}

		p = p.DeepCopy()
		p.Spec.Hostname = "other" // the sandbox must change, and all that is in it
		n.settle(p)
		after = n.have(p)
		if after.Sandboxes[0].Attempt != 1 || after.Sandboxes[1].State != pod.SandboxNotReady {
			t.Errorf("got %+v", after.Sandboxes)
		}
		for _, name := range []string{"app", "log"} {
			if c := after.Container(name); c.State != pod.ContainerRunning || c.SandboxID != after.Sandboxes[0].ID {
				t.Errorf("got %+v", c)
			}
		}
	})
}
