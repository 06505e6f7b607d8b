package worker

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

var (
	asked    = pod.Cause{Description: "asked to"}
	shutdown = pod.Cause{Description: "the machine goes down", Reason: "Terminated", Passing: true}
)

func podWithGrace(grace int64) *v1.Pod {
	p := &v1.Pod{}
	p.UID, p.Name, p.Namespace = "uid", "web", "default"
	p.Spec.TerminationGracePeriodSeconds = &grace
	return p
}

func deleted(grace int64) *v1.Pod {
	p := podWithGrace(30)
	p.DeletionTimestamp = &metav1.Time{}
	p.DeletionGracePeriodSeconds = &grace
	return p
}

// Every transition: from each phase, with each event.
func TestTransitions(t *testing.T) {
	in := map[string]life{
		"syncing":           {phase: Syncing, pod: podWithGrace(30)},
		"terminating":       {phase: Terminating, pod: podWithGrace(30), grace: 30, cause: pod.Cause{Description: "first"}},
		"terminating, lost": {phase: Terminating, pod: podWithGrace(30), grace: 30, cause: pod.Cause{Description: "first"}, removed: true},
		"terminated":        {phase: Terminated, pod: podWithGrace(30), grace: 30, cause: pod.Cause{Description: "first"}},
		"terminated, lost":  {phase: Terminated, pod: podWithGrace(30), grace: 30, cause: pod.Cause{Description: "first"}, removed: true},
		"gone":              {phase: Gone, pod: podWithGrace(30), grace: 30, cause: pod.Cause{Description: "first"}, removed: true},
	}
	five := int64(5)
	events := map[string]event{
		"desire": desire{podWithGrace(30)}, "delete": desire{deleted(5)}, "stop": stop{&five, asked}, "stop, own grace": stop{nil, asked},
		"remove": remove{}, "finished": finished{}, "stopped": stopped{}, "erased": erased{}, "revive": revive{},
	}
	want := map[string]map[string]Phase{
		"syncing": {
			"desire": Syncing, "delete": Terminating, "stop": Terminating, "stop, own grace": Terminating,
			"remove": Terminating, "finished": Terminating, "stopped": Syncing, "erased": Syncing, "revive": Syncing,
		},
		"terminating": {
			"desire": Terminating, "delete": Terminating, "stop": Terminating, "stop, own grace": Terminating,
			"remove": Terminating, "finished": Terminating, "stopped": Terminated, "erased": Terminating, "revive": Terminating,
		},
		"terminating, lost": {
			"desire": Terminating, "delete": Terminating, "stop": Terminating, "stop, own grace": Terminating,
			"remove": Terminating, "finished": Terminating, "stopped": Terminated, "erased": Terminating, "revive": Terminating,
		},
		"terminated": {
			"desire": Terminated, "delete": Terminated, "stop": Terminated, "stop, own grace": Terminated,
			"remove": Terminated, "finished": Terminated, "stopped": Terminated, "erased": Terminated, "revive": Terminated,
		},
		"terminated, lost": {
			"desire": Terminated, "delete": Terminated, "stop": Terminated, "stop, own grace": Terminated,
			"remove": Terminated, "finished": Terminated, "stopped": Terminated, "erased": Gone, "revive": Terminated,
		},
		"gone": {
			"desire": Gone, "delete": Gone, "stop": Gone, "stop, own grace": Gone,
			"remove": Gone, "finished": Gone, "stopped": Gone, "erased": Gone, "revive": Gone,
		},
	}
	for state, l := range in {
		for name, e := range events {
			expected, ok := want[state][name]
			if !ok {
				t.Fatalf("the table lacks %s + %s", state, name)
			}
			if got := l.on(e).phase; got != expected {
				t.Errorf("%s + %s: got %s, want %s", state, name, got, expected)
			}
		}
	}
}

func TestAPodAddedAgainWhileItGoesWaitsForItsTurn(t *testing.T) {
	l := newLife(podWithGrace(30)).on(remove{})
	next := podWithGrace(10)
	l = l.on(desire{next})
	if l.phase != Terminating || l.next != next || l.pod == next {
		t.Fatalf("the new version must wait, and the old one stay what is stopped: %+v", l)
	}
	if l = l.on(remove{}); l.next != nil {
		t.Fatal("it was removed again, and must not come back")
	}
}

func TestAPodThatHasEndedBeforeNeverRuns(t *testing.T) {
	p := podWithGrace(30)
	p.Status.Phase = v1.PodFailed
	if l := newLife(p); l.phase != Terminating {
		t.Fatalf("phase %s", l.phase)
	}
}

func TestTheFirstReasonStays(t *testing.T) {
	l := newLife(podWithGrace(30)).on(stop{nil, pod.Cause{Description: "evicted"}}).on(remove{})
	if l.cause.Description != "evicted" {
		t.Fatalf("cause %+v", l.cause)
	}
}

// Whatever happens in whatever order: the phase never goes back, a kill is never
// undone, a grace period never grows, and a removed pod stays removed.
func TestLifeNeverGoesBack(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newLife(podWithGrace(r.Int64N(60)))
		for range 30 {
			grace := r.Int64N(60)
			e := [...]event{
				desire{podWithGrace(grace)},
				desire{deleted(grace)},
				stop{&grace, pod.Cause{Description: "x"}},
				stop{nil, pod.Cause{Description: "y"}},
				revive{}, // nothing passes here
				remove{},
				finished{},
				stopped{},
				erased{},
			}[r.IntN(9)]
			before := l
			l = l.on(e)
			switch {
			case l.phase < before.phase:
				t.Fatalf("seed %d: %T moved %s back to %s", seed, e, before.phase, l.phase)
			case l.phase > before.phase+1:
				t.Fatalf("seed %d: %T skipped from %s to %s", seed, e, before.phase, l.phase)
			case before.phase >= Terminating && l.grace > before.grace:
				t.Fatalf("seed %d: %T lengthened the grace from %d to %d", seed, e, before.grace, l.grace)
			case before.phase >= Terminating && l.cause != before.cause:
				t.Fatalf("seed %d: %T changed the cause from %+v to %+v", seed, e, before.cause, l.cause)
			case before.removed && !l.removed:
				t.Fatalf("seed %d: %T brought a removed pod back", seed, e)
			case l.phase == Gone && !l.removed:
				t.Fatalf("seed %d: %T erased a pod that its source still has", seed, e)
			}
		}
	}
}

func TestAPodThatAPassingCauseEndedIsRevived(t *testing.T) {
	ended := func() life { return newLife(podWithGrace(30)).on(stop{nil, shutdown}) }
	for name, test := range map[string]struct {
		life life
		want Phase
	}{
		"once it is stopped":                  {ended().on(stopped{}).on(revive{}), Syncing},
		"while it is being stopped":           {ended().on(revive{}), Terminating},
		"after that":                          {ended().on(revive{}).on(stopped{}), Syncing},
		"asked to stop again meanwhile":       {ended().on(revive{}).on(stop{nil, shutdown}).on(stopped{}), Terminated},
		"and then revived after all":          {ended().on(revive{}).on(stop{nil, shutdown}).on(revive{}).on(stopped{}), Syncing},
		"removed meanwhile":                   {ended().on(revive{}).on(remove{}).on(stopped{}), Terminated},
		"removed before":                      {ended().on(stopped{}).on(remove{}).on(revive{}), Terminated},
		"deleted meanwhile":                   {ended().on(revive{}).on(desire{deleted(5)}).on(stopped{}), Terminated},
		"deleted after it was stopped":        {ended().on(stopped{}).on(desire{deleted(5)}).on(revive{}), Terminating},
		"it had ended before the cause came":  {newLife(podWithGrace(30)).on(finished{}).on(stop{nil, shutdown}).on(stopped{}).on(revive{}), Terminated},
		"it lives: there is nothing to bring": {newLife(podWithGrace(30)).on(revive{}), Syncing},
	} {
		if test.life.phase != test.want {
			t.Errorf("%s: got %s, want %s", name, test.life.phase, test.want)
		}
	}
	if l := ended().on(stopped{}).on(revive{}); l.cause != (pod.Cause{}) || l.revive || l.grace != 0 {
		t.Errorf("a new life remembers the old one: %+v", l)
	}
	newer := podWithGrace(10)
	if l := ended().on(revive{}).on(desire{newer}).on(stopped{}); l.pod != newer {
		t.Error("the new life is that of an older version")
	}
}
