package agent

import (
	"testing"

	"berth/internal/lib/pod"
)

// Every transition: in each state, with each event. An event that a state does not list
// leaves it as it is.
func TestTransitions(t *testing.T) {
	again := map[event]admission{reconsider: undecided}
	waiting := map[event]admission{reconsider: undecided, deletePod: deletedUnadmitted}
	want := map[admission]map[event]admission{
		undecided: {
			awaitRuntime: waitingForRuntime, awaitSource: waitingForSource, awaitNode: waitingForNode, awaitRoom: waitingForRoom,
			hold: waitingForResume, admitPod: admitted, reject: rejected,
		},
		waitingForRuntime: again,
		waitingForSource:  waiting,
		waitingForNode:    {reconsider: undecided, deletePod: deletedUnadmitted, readNode: waitingForRead},
		waitingForRead:    waiting,
		waitingForRoom:    waiting,
		waitingForResume:  waiting,
		admitted:          {hold: waitingForResume, preempt: preempted},
		preempted:         {hold: waitingForResume},
		rejected:          again,
		deletedUnadmitted: {},
	}
	for from := range admissions {
		if want[from] == nil {
			t.Fatalf("the table lacks %s", from)
		}
		for e := range events {
			to, listed := want[from][e]
			if !listed {
				to = from
			}
			for _, revived := range []bool{false, true} {
				expected := podState{to, (revived || e == revive && from == admitted) && e != settle}
				if got := (podState{from, revived}).on(e); got != expected {
					t.Errorf("%s, revived %v + %s: got %v, want %v", from, revived, e, got, expected)
				}
			}
		}
	}
}

func TestAPodHasOneStateAndEachChangeOfItIsSeen(t *testing.T) {
	changes := 0
	s := newPodStates(func(pod.UID) { changes++ })
	for i, step := range []struct {
		do      func()
		want    admission
		changes int
	}{
		{func() { s.apply("a", settle) }, undecided, 0},
		{func() { s.apply("a", awaitRoom) }, waitingForRoom, 1},
		{func() { s.apply("a", reconsider) }, undecided, 2},
		{func() { s.apply("a", admitPod) }, admitted, 3},
		{func() { s.apply("a", admitPod) }, admitted, 3},
		{func() { s.apply("a", revive) }, admitted, 4},
		{func() { s.remove("a") }, undecided, 5},
		{func() { s.remove("a") }, undecided, 5},
	} {
		step.do()
		if got := s.admission("a"); got != step.want || changes != step.changes {
			t.Fatalf("step %d: %s after %d changes, want %s after %d", i, got, changes, step.want, step.changes)
		}
		for a := undecided + 1; a < admissions; a++ {
			if counted := s.counts[a] == 1; counted != (a == step.want) || s.counts[a] < 0 {
				t.Errorf("step %d: %d pods are %s", i, s.counts[a], a)
			}
		}
	}
	if len(s.byUID) != 0 {
		t.Errorf("left behind: %v", s.byUID)
	}
}
