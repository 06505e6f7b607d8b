package keyedmutex

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestOneHolderPerKey(t *testing.T) {
	var m Mutex[int]
	held := [2]int{} // by key; the race detector finds two holders at a time
	var group sync.WaitGroup
	for range 50 {
		for key := range held {
			group.Go(func() {
				unlock, err := m.Lock(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				defer unlock()
				held[key]++
			})
		}
	}
	group.Wait()
	if held != [2]int{50, 50} {
		t.Errorf("locked %v times, want 50 each", held)
	}
	if m.InUse() != 0 {
		t.Errorf("%d keys are left that nobody holds", m.InUse())
	}
}

func TestAWaiterLeavesWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Mutex[int]
		unlock, err := m.Lock(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		other, err := m.Lock(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		other()

		late := errors.New("it takes too long")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() { _, err := m.Lock(ctx, 1); done <- err }()
		synctest.Wait()
		cancel(late)
		if err := <-done; !errors.Is(err, late) {
			t.Errorf("got %v", err)
		}
		unlock()
		if unlock, err := m.Lock(t.Context(), 1); err != nil {
			t.Error(err)
		} else {
			unlock()
		}
		if m.InUse() != 0 {
			t.Errorf("%d keys are left that nobody holds", m.InUse())
		}
	})
}
