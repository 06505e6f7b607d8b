package status

import (
	"math/rand/v2"
	"testing"
)

var writeEvents = map[string]writeEvent{
	"write": write{}, "deletion": deletion{}, "forget": forget{}, "seen": seen{},
	"begun": begun{}, "patched": patched{}, "failed": failed{}, "gone": gone{},
}

// Every transition: from each phase, with each event.
func TestTransitionsOfTheWriter(t *testing.T) {
	want := map[writePhase]map[string]writePhase{
		synced: {
			"write": dirty, "deletion": deleting, "forget": synced, "seen": synced,
			"begun": synced, "patched": synced, "failed": synced, "gone": absent,
		},
		dirty: {
			"write": dirty, "deletion": lastStatus, "forget": dirty, "seen": dirty,
			"begun": dirty, "patched": synced, "failed": dirty, "gone": absent,
		},
		lastStatus: {
			"write": lastStatus, "deletion": lastStatus, "forget": lastStatus, "seen": lastStatus,
			"begun": lastStatus, "patched": deleting, "failed": lastStatus, "gone": deleted,
		},
		deleting: {
			"write": lastStatus, "deletion": deleting, "forget": deleting, "seen": deleting,
			"begun": deleting, "patched": deleting, "failed": deleting, "gone": deleted,
		},
		absent: {
			"write": absent, "deletion": absent, "forget": absent, "seen": synced,
			"begun": absent, "patched": absent, "failed": absent, "gone": absent,
		},
		deleted: {
			"write": deleted, "deletion": deleted, "forget": deleted, "seen": deleting,
			"begun": deleted, "patched": deleted, "failed": deleted, "gone": deleted,
		},
	}
	for phase := synced; phase <= deleted; phase++ {
		for name, e := range writeEvents {
			expected, ok := want[phase][name]
			if !ok {
				t.Fatalf("the table lacks %s + %s", phase, name)
			}
			if got := (writeState{phase: phase}).on(e).phase; got != expected {
				t.Errorf("%s + %s: got %s, want %s", phase, name, got, expected)
			}
		}
	}
}

func TestWhatMakesARequestUrgent(t *testing.T) {
	for name, c := range map[string]struct {
		in   writeState
		on   writeEvent
		want bool
	}{
		"a status that others wait for":    {writeState{}, write{urgent: true}, true},
		"a status that can wait":           {writeState{}, write{}, false},
		"a second status that can wait":    {writeState{phase: dirty, urgent: true}, write{}, true},
		"a deletion":                       {writeState{phase: dirty}, deletion{}, true},
		"a deletion that was asked before": {writeState{phase: deleting}, deletion{}, false},
		"a failure":                        {writeState{phase: dirty}, failed{}, true},
		"a request that begins":            {writeState{phase: dirty, urgent: true}, begun{}, false},
	} {
		if got := c.in.on(c.on).urgent; got != c.want {
			t.Errorf("%s: urgent %t", name, got)
		}
	}
}

// In whatever order events come: an asked deletion stays asked for, and only a pod that is to be
// deleted is kept after it is forgotten.
func TestADeletionStaysAskedFor(t *testing.T) {
	names := []string{"write", "deletion", "forget", "seen", "begun", "patched", "failed", "gone"}
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s writeState
		asked := false
		for range 30 {
			name := names[r.IntN(len(names))]
			asked = asked || (name == "deletion" && !s.phase.isGone())
			s = s.on(writeEvents[name])
			if asked != (s.phase.isDeleting() || s.phase == deleted) {
				t.Fatalf("seed %d: %s leads to %s, with a deletion asked for: %t", seed, name, s.phase, asked)
			}
			if s.forgotten && !asked {
				t.Fatalf("seed %d: %s forgets a pod that is not to be deleted", seed, name)
			}
		}
	}
}
