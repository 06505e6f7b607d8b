//go:build real

package core

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/telemetry/event"
	"berth/test/real/kit"
)

func TestGracePeriod(t *testing.T) {
	t.Parallel()
	// given pods that end at SIGTERM, or don't, with hooks and without
	n := kit.NewNode(t)
	one := func(name string, grace int64, preStop string, args ...string) *v1.Pod {
		p := kit.NewPod(name, args...)
		p.Spec.TerminationGracePeriodSeconds = &grace
		if preStop != "" {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: kit.ExecHook("hook", "hook", preStop, "0")}
		}
		return p
	}
	slept := one("slept", 20, "", "activity", "app", "0s")
	slept.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 2}}}
	signalled := one("signalled", 20, "", "usr1", "app")
	signalled.Spec.OS = &v1.PodOS{Name: v1.Linux} // whose signals they are
	signalled.Spec.Containers[0].Lifecycle = &v1.Lifecycle{StopSignal: new(v1.SIGUSR1)}
	n.Apply("pods.yaml", slept, signalled,
		one("polite", 20, "1s", "activity", "app", "0s"),
		one("stubborn", 3, "", "cling", "app"),
		one("shared", 4, "2s", "cling", "app"),
		one("endless", 2, "1m", "cling", "app"),
		one("spent", 2, "1m", "activity", "app", "0s"),
	)
	n.Start()
	pods := n.WaitRunning("polite", "stubborn", "shared", "endless", "spent", "slept", "signalled")
	logs := map[string]*kit.ActivityLogs{}
	for name, p := range pods {
		logs[name] = n.OpenActivityLogs(p)
	}
	seen := n.Watch()

	// when they are removed
	removed := time.Now()
	n.RemoveManifest("pods.yaml")

	// then one can read where that stands
	n.Wait("the step of a termination", 10*time.Second, func() string {
		table := n.MustBerth("get", "pods", "-o", "wide")
		return kit.MissingUnless(strings.Contains(table, "Terminating since ") && strings.Contains(table, "stopping containers"))
	})
	ends := map[string]v1.Pod{}
	for name := range pods {
		ends[name], _ = seen.WaitGone(name)
		seen.MustNotGoBack(name)
	}
	code := func(name string, want int32) {
		t.Helper()
		if end := kit.AppStatus(ends[name]).State.Terminated; end == nil || end.ExitCode != want {
			t.Errorf("%s ended with %s, and not with %d", name, kit.Summary(ends[name]), want)
		}
	}
	killed := func(name string, from time.Time, grace time.Duration) {
		t.Helper()
		code(name, 137)
		at := logs[name].Read().At("app", "alive")
		t.Logf("%s: killed %s after it was removed", name, at.Sub(removed).Round(time.Millisecond))
		if at.Before(removed.Add(grace)) {
			t.Errorf("%s was killed %s after it was removed, and had %s", name, at.Sub(removed), grace)
		}
		if at.After(from.Add(grace + kit.GraceMargin)) {
			t.Errorf("%s was killed %s after its stop began, and had %s", name, at.Sub(from), grace)
		}
	}

	// the one that ends on the signal gets it after its hook, and ends at once
	polite := logs["polite"].Read()
	polite.MustBeInOrder("hook start", "hook end", "app term", "app end")
	code("polite", 0)
	if took := polite.At("app", "end").Sub(removed); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}

	// a hook may just let time pass
	if rest := logs["slept"].Read().At("app", "term").Sub(removed); rest < 2*time.Second {
		t.Errorf("SIGTERM came %s after the pod was removed, and the hook takes 2s", rest)
	}
	code("slept", 0)

	// a container gets the signal that it wants
	signals := logs["signalled"].Read()
	signals.MustBeInOrder("app start", "app usr1", "app end")
	if _, found := signals.Find("app", "term"); found {
		t.Errorf("SIGTERM was sent as well: %s", signals)
	}
	code("signalled", 0)

	// the one that does not is killed when its time is over
	stubborn := logs["stubborn"].Read()
	killed("stubborn", stubborn.At("app", "term"), 3*time.Second)

	// hook and signal share that time
	shared := logs["shared"].Read()
	shared.MustBeInOrder("hook start", "hook end", "app term")
	killed("shared", shared.At("hook", "start"), 4*time.Second)

	// after a hook that uses up all of it, there are two seconds for the signal, and no more
	spent := logs["spent"].Read()
	spent.MustBeInOrder("hook start", "app term", "app end")
	code("spent", 0)
	endless := logs["endless"].Read()
	endless.MustBeInOrder("hook start", "app term")
	killed("endless", endless.At("hook", "start"), 4*time.Second)
	n.WaitEvent(pods["endless"], event.FailedPreStopHook)
	mustHaveNothing(n)
}
