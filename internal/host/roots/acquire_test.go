package roots

import (
	"errors"
	"log/slog"
	"testing"
)

func TestAnEmptyRootWhosePodNetworkIsTakenGetsAnother(t *testing.T) {
	m, log := newTestMachine(t), slog.New(slog.DiscardHandler)
	// given a root that had a pod network, and another root that has it by now
	had, owner, err := m.AcquireForRun(Request{Root: t.TempDir()}, nil, log)
	if err != nil || !had.PodCIDR.IsValid() || had.Names.PodCIDR != had.PodCIDR || owner.PodCIDR() != had.PodCIDR {
		t.Fatalf("got %+v, %v", had, err)
	}
	if err := m.Release(owner); err != nil {
		t.Fatal(err)
	}
	other, _, err := m.AcquireForRun(Request{Root: t.TempDir(), PodCIDR: had.PodCIDR}, nil, log)
	if err != nil || other.PodCIDR != had.PodCIDR {
		t.Fatalf("got %+v, %v", other, err)
	}

	// when an agent of the first root starts again, then it gets another network while it has no pods
	again, _, err := m.AcquireForRun(Request{Root: had.Root}, &had.Names, log)
	if err != nil || again.PodCIDR == had.PodCIDR || !again.PodCIDR.IsValid() || again.Names.PodCIDR != again.PodCIDR {
		t.Errorf("got %+v, %v", again, err)
	}
	// but not if the network was given, or has pods
	var conflict *ConflictError
	if _, _, err := m.AcquireForRun(Request{Root: had.Root, PodCIDR: had.PodCIDR}, &had.Names, log); !errors.As(err, &conflict) {
		t.Errorf("a network that was given: %v", err)
	}
	third := t.TempDir()
	occupy(t, third)
	names := NamesOf(third, third, Names{}, false)
	names.PodCIDR = had.PodCIDR
	if _, _, err := m.AcquireForRun(Request{Root: third}, &names, log); !errors.As(err, &conflict) {
		t.Errorf("a network with pods: %v", err)
	}

	// and when the other root is taken down, what is its own is released
	_, owner, err = m.AcquireForTeardown(other, log)
	if err != nil || owner.PodCIDR() != other.PodCIDR {
		t.Errorf("got %+v, %v", owner, err)
	}
}
