package probe

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestAContainerThatHasJustStartedIsProbedAtOnceAndThenEachPeriod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer("c1", "ready", bad)
		w.watch(web("a", nil, nil, asking("ready")), "c1")
		w.pass(0)
		w.expectHealth("c1", "started=- ready=false dead=")
		w.pass(25 * time.Second)
		w.expectCalls("0s c1 ready", "10s c1 ready", "20s c1 ready")
	})
}

func TestTheInitialDelayCountsFromTheStartOfTheContainer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pass(3 * time.Second)
		p := web("a", nil, nil, asking("ready", delay(5)))
		w.Watch(p, has(runs("c1", w.began.Add(time.Second))))
		w.pass(15 * time.Second)
		w.expectCalls("6s c1 ready", "16s c1 ready")
	})
}

func TestAClockThatWasSetBackDelaysNoProbeForLong(t *testing.T) {
	inWorld(t, func(w *world) {
		p := web("a", nil, nil, asking("ready", delay(5)))
		w.Watch(p, has(runs("c1", w.began.Add(time.Hour))))
		w.pass(6 * time.Second)
		w.expectCalls("5s c1 ready")
	})
}

func TestReadinessFlipsAtItsThresholds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.watch(web("a", nil, nil, asking("ready", thresholds(2, 3))), "c1")
		w.pass(5 * time.Second)
		w.expectHealth("c1", "started=- ready=false dead=")
		w.pass(10 * time.Second)
		w.expectHealth("c1", "started=- ready=true dead=")
		w.answer("c1", "ready", bad)
		w.pass(20 * time.Second) // two failures, then it is well again
		w.answer("c1", "ready", reply{})
		w.pass(10 * time.Second)
		w.expectHealth("c1", "started=- ready=true dead=")
		w.answer("c1", "ready", bad)
		w.pass(30 * time.Second)
		w.expectHealth("c1", "started=- ready=false dead=")
		w.expectResults("10s c1 readiness true", "1m10s c1 readiness false")
	})
}

func TestLivenessGivesUpAtItsThreshold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.watch(web("a", nil, asking("live", period(2), func(p *v1.Probe) { p.TerminationGracePeriodSeconds = new(int64(7)) }), nil), "c1")
		w.pass(time.Second)
		w.expectHealth("c1", "started=- ready=- dead=")
		w.answer("c1", "live", bad)
		w.pass(4 * time.Second)
		w.expectHealth("c1", "started=- ready=- dead=")
		w.pass(time.Minute)
		w.expectHealth("c1", "started=- ready=- dead=liveness probe failed: no good grace=7")
		w.expectCalls("0s c1 live", "2s c1 live", "4s c1 live", "6s c1 live")
		w.expectResults("6s c1 liveness false")
		w.expectEvents(
			"2s a/app Warning Unhealthy: Liveness probe failed: no good",
			"4s a/app Warning Unhealthy: Liveness probe failed: no good",
			"6s a/app Warning Unhealthy: Liveness probe failed: no good")
	})
}

func TestStartupGoesBeforeTheOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer("c1", "start", bad)
		w.watch(web("a", asking("start", period(2), thresholds(1, 30)), asking("live"), asking("ready", delay(9))), "c1")
		w.pass(5 * time.Second)
		w.expectHealth("c1", "started=false ready=false dead=")
		w.expectCalls("0s c1 start", "2s c1 start", "4s c1 start")
		w.answer("c1", "start", reply{})
		w.pass(2 * time.Second)
		w.expectHealth("c1", "started=true ready=false dead=")
		w.pass(10 * time.Second)
		// One has its initial delay behind it, the other not yet.
		w.expectCalls("6s c1 start", "6s c1 live", "9s c1 ready", "16s c1 live")
		w.expectHealth("c1", "started=true ready=true dead=")
		w.expectResults("6s c1 startup true", "9s c1 readiness true")
	})
}

func TestAStartThatFailsGivesUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer("c1", "start", bad)
		w.watch(web("a", asking("start", thresholds(1, 2)), asking("live"), asking("ready")), "c1")
		w.pass(time.Minute)
		w.expectHealth("c1", "started=false ready=false dead=startup probe failed: no good")
		w.expectCalls("0s c1 start", "10s c1 start")
		w.expectResults("10s c1 startup false")
	})
}

func TestACommandThatTakesTooLongIsAFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer("c1", "live", reply{takes: time.Hour})
		w.watch(web("a", nil, asking("live", timeout(4), thresholds(1, 1)), nil), "c1")
		w.pass(5 * time.Second)
		w.expectHealth("c1", `started=- ready=- dead=liveness probe failed: command timed out: "live" timed out after 4s`)
		w.expectResults("4s c1 liveness false")
		w.expect("metrics", &w.seen, "a/app Liveness failed 4s")
	})
}

func TestACheckThatCantBeMadeSaysNothingAboutTheContainer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer("c1", "live", bad)
		w.watch(web("a", nil, asking("live", thresholds(1, 2)), nil), "c1")
		w.pass(time.Second)
		w.expectCalls("0s c1 live")
		w.answer("c1", "live", unavailable)
		w.pass(20 * time.Second)
		w.expectCalls("10s c1 live", "10s c1 live", "10s c1 live", "20s c1 live", "20s c1 live", "20s c1 live")
		w.expectHealth("c1", "started=- ready=- dead=")
		if last := w.Last("c1"); len(last) != 1 || last[0].Outcome != Unknown || last[0].InARow != 2 {
			t.Errorf("last: %+v", last)
		}
		w.answer("c1", "live", bad) // the second in the row
		w.pass(10 * time.Second)
		w.expectHealth("c1", "started=- ready=- dead=liveness probe failed: no good")
		w.expectEvents(
			"0s a/app Warning Unhealthy: Liveness probe failed: no good",
			"10s a/app Warning Unhealthy: Liveness probe errored and resulted in unknown state: the runtime does not answer",
			"20s a/app Warning Unhealthy: Liveness probe errored and resulted in unknown state: the runtime does not answer",
			"30s a/app Warning Unhealthy: Liveness probe failed: no good")
	})
}

// A runtime that hangs for an hour says nothing about any container, however low the
// threshold, and is asked for each probe once at a time.
func TestARuntimeThatHangsFailsNoContainer(t *testing.T) {
	inWorld(t, func(w *world) {
		one := thresholds(1, 1)
		w.watch(web("a", nil, asking("live", one), asking("ready", one)), "c1")
		w.watch(web("b", asking("start", one), nil, nil), "c2")
		w.pass(time.Second)
		w.expectHealth("c1", "started=- ready=true dead=")
		w.expectHealth("c2", "started=true ready=- dead=")
		hung := reply{err: pod.ErrNoAnswer, takes: 2 * time.Minute}
		w.answer("c1", "live", hung)
		w.answer("c1", "ready", hung)
		w.answer("c3", "start", hung)
		w.watch(web("c", asking("start", one), nil, nil), "c3")
		w.pass(time.Hour)
		w.expectHealth("c1", "started=- ready=true dead=")
		w.expectHealth("c2", "started=true ready=- dead=")
		w.expectHealth("c3", "started=false ready=- dead=")
		w.expectMost(3)
		w.answer("c1", "live", reply{})
		w.pass(3 * time.Minute)
		w.expectHealth("c1", "started=- ready=true dead=")
	})
}

func TestAProbeNeverRunsTwiceAtATime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer("c1", "ready", reply{takes: 25 * time.Second})
		w.watch(web("a", nil, nil, asking("ready", timeout(60))), "c1")
		w.pass(70 * time.Second)
		w.expectCalls("0s c1 ready", "30s c1 ready", "1m0s c1 ready")
	})
}

func TestNoMoreCommandsAtATimeThanAllowed(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			w.answer(name, "ready", reply{takes: time.Second})
			w.watch(web(name, nil, nil, asking("ready", timeout(2))), name)
		}
		w.pass(5 * time.Second)
		if len(w.calls) != 7 || w.most != 3 {
			t.Errorf("%d commands, %d at a time", len(w.calls), w.most)
		}
		for _, name := range []string{"a", "g"} { // the wait is no part of the timeout
			w.expectHealth(name, "started=- ready=true dead=")
		}
	})
}

func TestAProbeWaitsUntilItsResultIsTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stopRun()
		// Given a manager whose results are not received
		other := newWorld(t, "")
		ended := make(chan struct{})
		ctx, cancel := contextOf(t)
		go func() { defer close(ended); other.Run(ctx) }()
		other.watch(web("a", nil, nil, asking("ready")), "c1")
		other.pass(time.Minute)
		other.expectCalls("0s c1 ready")
		other.expectHealth("c1", "started=- ready=true dead=")
		// When it ends, then at once
		cancel()
		other.pass(0)
		<-ended
	})
}

func TestTheLastResultOfEachProbeCanBeRead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer("c1", "live", reply{output: "all\x1b[31m well\n"})
		w.answer("c1", "ready", bad)
		w.watch(web("a", nil, asking("live"), asking("ready", delay(20))), "c1")
		w.pass(35 * time.Second)
		last := w.Last("c1")
		want := []Result{
			{Kind: "Liveness", At: w.began.Add(30 * time.Second), Outcome: Success, Output: "all?[31m well", InARow: 4},
			{Kind: "Readiness", At: w.began.Add(30 * time.Second), Outcome: Failure, Output: "no good", InARow: 2},
		}
		if len(last) != 2 || last[0] != want[0] || last[1] != want[1] {
			t.Errorf("last: %+v, want %+v", last, want)
		}
		if last := w.Last("another"); last != nil {
			t.Errorf("results of nobody: %+v", last)
		}
	})
}

func TestTheNumbersOfAProbe(t *testing.T) {
	s := time.Second
	for name, tc := range map[string]struct {
		probe v1.Probe
		want  settings
	}{
		"defaults": {v1.Probe{}, settings{0, 10 * s, s, 1, 3}},
		"nonsense": {v1.Probe{InitialDelaySeconds: -1, PeriodSeconds: -1, TimeoutSeconds: -1, SuccessThreshold: -1, FailureThreshold: -1}, settings{0, 10 * s, s, 1, 3}},
		"given":    {v1.Probe{InitialDelaySeconds: 1, PeriodSeconds: 2, TimeoutSeconds: 3, SuccessThreshold: 4, FailureThreshold: 5}, settings{s, 2 * s, 3 * s, 4, 5}},
	} {
		if got := settingsOf(&tc.probe); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestWhichProbesAContainerGets(t *testing.T) {
	yes, no := new(true), new(false)
	for _, tc := range []struct {
		health   pod.Health
		stopping bool
		want     [kinds]bool // startup, liveness, readiness
	}{
		{pod.Health{}, false, [kinds]bool{false, true, true}},
		{pod.Health{Started: no}, false, [kinds]bool{true, false, false}},
		{pod.Health{Started: yes}, false, [kinds]bool{false, true, true}},
		{pod.Health{Started: yes, Dead: "x"}, false, [kinds]bool{false, false, true}},
		{pod.Health{Started: no, Dead: "x"}, false, [kinds]bool{}},
		{pod.Health{Started: no}, true, [kinds]bool{}},
		{pod.Health{Started: yes}, true, [kinds]bool{false, false, true}},
	} {
		for k := range kinds {
			if got := isNeeded(k, tc.health, tc.stopping); got != tc.want[k] {
				t.Errorf("%s: %s, stopping %t: %t", k, healthText(tc.health), tc.stopping, got)
			}
		}
	}
}
