package probe

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, cancel
}

func TestWatchingTwiceChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		p := web("a", nil, nil, asking("ready"))
		have := has(runs("c1", time.Now()))
		for range 9 {
			w.Watch(p, have)
			w.pass(3 * time.Second)
		}
		w.expectCalls("0s c1 ready", "10s c1 ready", "20s c1 ready")
		w.expectResults("0s c1 readiness true")
	})
}

func TestOnlyContainersThatRunAndHaveProbesAreProbed(t *testing.T) {
	inWorld(t, func(w *world) {
		stays := v1.ContainerRestartPolicyAlways
		p := web("a", nil, nil, nil)
		p.Spec.InitContainers = []v1.Container{
			{Name: "init", ReadinessProbe: asking("init")},
			{Name: "sidecar", ReadinessProbe: asking("sidecar"), RestartPolicy: &stays},
		}
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "made", ReadinessProbe: asking("made")}, v1.Container{Name: "missing", ReadinessProbe: asking("missing")})
		now := time.Now()
		have := pod.Observed{Containers: []pod.Container{
			{ID: "i", Name: "init", State: pod.ContainerRunning, StartedAt: now},
			{ID: "s", Name: "sidecar", State: pod.ContainerRunning, StartedAt: now},
			{ID: "c", Name: "app", State: pod.ContainerRunning, StartedAt: now},
			{ID: "m", Name: "made", State: pod.ContainerCreated},
		}}
		w.Watch(p, have)
		w.pass(time.Second)
		w.expectCalls("0s s sidecar")
		w.expectHealth("c", "started=- ready=- dead=")
	})
}

func TestResultsDieWithTheirContainer(t *testing.T) {
	inWorld(t, func(w *world) {
		p := web("a", asking("start"), nil, asking("ready"))
		w.watch(p, "c1")
		w.pass(time.Second)
		w.expectHealth("c1", "started=true ready=true dead=")
		// When it ended
		w.Watch(p, has(pod.Container{ID: "c1", State: pod.ContainerExited}))
		w.expectHealth("c1", "started=- ready=- dead=")
		w.pass(time.Minute)
		w.expectCalls("0s c1 start", "0s c1 ready")
		// And another took its place, then that one begins from the beginning
		w.answer("c2", "start", bad)
		w.Watch(p, has(runs("c2", time.Now()), pod.Container{ID: "c1", State: pod.ContainerExited}))
		w.pass(time.Second)
		w.expectHealth("c2", "started=false ready=false dead=")
		w.expectCalls("1m1s c2 start")
	})
}

func TestWhatWasFoundLastOutlivesTheContainerUntilAnotherHasAnswered(t *testing.T) {
	inWorld(t, func(w *world) {
		before := func() string {
			var out []string
			for _, r := range w.Before("uid-a", "app") {
				out = append(out, fmt.Sprintf("%s %s %s", r.Kind, r.Outcome, r.Output))
			}
			return strings.Join(out, ", ")
		}
		expect := func(want string) {
			t.Helper()
			if got := before(); got != want {
				t.Errorf("at %s: before: %q, want %q", w.moment(), got, want)
			}
		}
		// Given a container that is given up
		p := web("a", nil, asking("live", thresholds(1, 1)), asking("ready", delay(1)))
		w.answer("c1", "live", bad)
		w.watch(p, "c1")
		w.pass(2 * time.Second)
		expect("")
		// When it ended, then one can still see why
		const why = "Liveness failed no good, Readiness successful "
		gone := pod.Container{ID: "c1", State: pod.ContainerExited}
		w.Watch(p, has(gone))
		expect(why)
		w.Watch(p, has(gone)) // once more changes nothing
		expect(why)
		// And when another took its place, then until that has answered
		next := web("a", nil, asking("live", delay(5), thresholds(1, 1)), asking("ready", delay(9)))
		w.watch(next, "c2")
		w.pass(4 * time.Second)
		expect(why)
		w.pass(2 * time.Second)
		expect("")
		// And nothing is left of a pod that is gone
		w.Watch(next, has(pod.Container{ID: "c2", State: pod.ContainerExited}))
		expect("Liveness successful ")
		w.Forget("uid-a")
		expect("")
		if len(w.pods) != 0 {
			t.Errorf("%d pods are left", len(w.pods))
		}
	})
}

func TestAContainerWhoseStateCantBeReadKeepsWhatIsKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		p := web("a", nil, nil, asking("ready"))
		w.watch(p, "c1")
		w.pass(time.Second)
		w.Watch(p, has(pod.Container{ID: "c1", State: pod.ContainerUnknown}))
		w.pass(10 * time.Second)
		w.expectHealth("c1", "started=- ready=true dead=")
		w.expectCalls("0s c1 ready", "10s c1 ready")
	})
}

func TestAPodThatIsBeingStoppedIsOnlyAskedWhetherItIsReady(t *testing.T) {
	inWorld(t, func(w *world) {
		p := web("a", nil, asking("live", timeout(30)), asking("ready"))
		w.answer("c1", "live", reply{takes: 20 * time.Second, code: 1})
		w.watch(p, "c1")
		starting := web("b", asking("start"), nil, nil)
		w.answer("c2", "start", bad)
		w.watch(starting, "c2")
		w.pass(5 * time.Second)
		w.expectCallsInAnyOrder("0s c1 live", "0s c1 ready", "0s c2 start")
		w.Stop(p.UID)
		w.Stop(starting.UID)
		w.watch(p, "c1") // a sync that came late
		w.pass(30 * time.Second)
		w.expectCalls("10s c1 ready", "20s c1 ready", "30s c1 ready")
		if last := w.Last("c1"); len(last) != 1 || last[0].Kind != "Readiness" {
			t.Errorf("what was being asked counted: %+v", last)
		}
		w.Forget(p.UID)
		w.pass(time.Minute)
		w.expectCalls()
		w.expectHealth("c1", "started=- ready=- dead=")
	})
}

func TestAPodThatIsForgottenLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		p := web("a", nil, nil, asking("ready", timeout(9)))
		w.answer("c1", "ready", reply{takes: 5 * time.Second})
		w.watch(p, "c1")
		w.pass(time.Second)
		w.Stop(p.UID)
		w.Forget(p.UID)
		w.Forget(p.UID) // once more does no harm
		w.pass(time.Minute)
		w.expectCalls("0s c1 ready")
		w.expectResults()
		if n := len(w.pods) + len(w.containers) + w.queue.Len(); n != 0 {
			t.Errorf("%d things are left", n)
		}
	})
}

func TestAProbeThatTheSpecLosesOrGains(t *testing.T) {
	inWorld(t, func(w *world) {
		w.watch(web("a", nil, asking("live"), nil), "c1")
		w.pass(time.Second)
		w.watch(web("a", nil, nil, asking("ready")), "c1")
		w.expectHealth("c1", "started=- ready=false dead=")
		w.pass(10 * time.Second)
		w.expectCalls("0s c1 live", "1s c1 ready", "11s c1 ready")
	})
}

func TestVariablesAreFilledIntoCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.config.Expand = func(c *v1.Container, command []string) []string {
			return []string{strings.ReplaceAll(command[0], "$(WHAT)", c.Name)}
		}
		w.start()
		w.watch(web("a", nil, nil, asking("ready-$(WHAT)")), "c1")
		w.pass(time.Second)
		w.expectCalls("0s c1 ready-app")
		w.stopRun()
	})
}

func TestAConfigThatLacksSomething(t *testing.T) {
	_, err := New(Config{})
	if err == nil || !strings.Contains(err.Error(), "required") || !strings.Contains(err.Error(), "at least one") {
		t.Errorf("error: %v", err)
	}
}
