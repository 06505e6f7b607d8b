package execute

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// served is a pod with the main container app and the sidecars mesh and logs, which each have a preStop hook of their name.
func served(n *node) *v1.Pod {
	n.t.Helper()
	p := web("a", "app")
	for _, name := range []string{"mesh", "logs"} {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{
			Name: name, Image: name, RestartPolicy: new(v1.ContainerRestartPolicyAlways),
			Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{name}}}},
		})
	}
	n.settle(p)
	n.expectState(p, "app", "running")
	return p
}

// stopCalls returns which containers were stopped when after began, and with which grace period.
func (n *node) stopCalls(began time.Time) []string {
	var out []string
	for _, s := range n.runtime.Stops() {
		out = append(out, s.Container+" after "+s.At.Sub(began).String()+" with "+s.Grace.String())
	}
	return out
}

func (n *node) expectStopCalls(began time.Time, want ...string) {
	n.t.Helper()
	if got := n.stopCalls(began); !slices.Equal(got, want) {
		n.t.Errorf("stopped: %q, want %q", got, want)
	}
}

func TestPreStopHooksOfSidecarsBeginWithTheTermination(t *testing.T) {
	onNode(t, 1, func(n *node) {
		// given sidecars whose hooks take long, one of them longer than the main container takes to end
		p := served(n)
		n.hooks.SetDuration("mesh", 3*time.Second)
		n.hooks.SetDuration("logs", 8*time.Second)
		n.runtime.Delay("StopContainer", 5*time.Second)
		began := time.Now()
		go func() {
			if _, err := n.stop(p); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if ran := n.hooks.Ran(); len(ran) != 2 {
			t.Errorf("hooks at the beginning: %v", ran)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		// then each is stopped after its hook, and after the containers that it serves (a stop takes five seconds here)
		n.expectStopCalls(began, "app after 5s with 30s", "logs after 13s with 22s", "mesh after 18s with 17s")
	})
}

func TestContainersHaveTwoSecondsAfterTheDeadline(t *testing.T) {
	onNode(t, 1, func(n *node) {
		// given hooks that use up the grace period
		p := served(n)
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"app"}}}}
		for _, name := range []string{"app", "mesh", "logs"} {
			n.hooks.SetDuration(name, time.Hour)
		}
		n.runtime.Delay("StopContainer", time.Second)
		began := time.Now()
		if _, err := n.stop(p); err != nil {
			t.Fatal(err)
		}
		// then all are stopped at the deadline, and not killed at once
		got := n.stopCalls(began)
		slices.Sort(got)
		if want := []string{"app after 31s with 2s", "logs after 31s with 2s", "mesh after 31s with 2s"}; !slices.Equal(got, want) {
			t.Errorf("stopped: %q, want %q", got, want)
		}
		// and their hooks go on until then
		for _, name := range []string{"app", "mesh", "logs"} {
			if took := n.hooks.CutShort(name).Sub(began); took != 31*time.Second {
				t.Errorf("the hook of %s was ended after %s", name, took)
			}
		}
		if got := n.events.All(); !slices.Contains(got, "FailedPreStopHook PreStopHook failed: container app: the hook did not end within the grace period: context deadline exceeded") {
			t.Errorf("events: %q", got)
		}
	})
}

func TestSidecarsWaitUntilTheDeadlineAtMost(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := served(n)
		n.runtime.Delay("StopContainer", time.Minute)
		began := time.Now()
		if _, err := n.stop(p); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 90*time.Second { // the stop of each takes a minute, those of the sidecars begin after 30 seconds
			t.Errorf("it took %s", took)
		}
	})
}

func TestASidecarGoesOnIfItsMainContainerCanNotBeStopped(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := served(n)
		n.runtime.Fail("StopContainer", errors.New("stuck"))
		began := time.Now()
		if done, err := n.stop(p); done || err == nil || err.Error() != "stuck" {
			t.Fatalf("got %t, %v", done, err)
		}
		if took := time.Since(began); took != 0 || n.runtime.Calls("StopContainer") != 1 {
			t.Errorf("%d containers were stopped, and the next attempt had to wait for %s", n.runtime.Calls("StopContainer"), took)
		}
		// when it can be, then no hook is run twice
		n.runtime.Fail("StopContainer", nil)
		n.stopped(p)
		if ran := n.hooks.Ran(); len(ran) != 2 {
			t.Errorf("hooks: %v", ran)
		}
	})
}

func TestAFailedPostStartHookIsFollowedByThePreStopHook(t *testing.T) {
	onNode(t, 1, func(n *node) {
		n.hooks.SetError("warmup", errors.New("too cold"))
		p := meshed("a")
		p.Spec.Containers[0].Lifecycle.PreStop = &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"drain"}}}
		n.hooks.SetDuration("drain", 10*time.Second)
		if _, err := n.sync(p); err != nil {
			t.Fatal(err)
		}
		if ran := n.hooks.Ran(); !slices.Equal(ran, []string{"warmup", "drain"}) {
			t.Errorf("hooks: %v", ran)
		}
		if stops := n.runtime.Stops(); len(stops) != 1 || stops[0].Grace != time.Duration(pod.Grace(p)-10)*time.Second {
			t.Errorf("stops: %+v", stops)
		}
	})
}
