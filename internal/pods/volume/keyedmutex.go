package volume

import (
	"context"
	"sync"
)

// keyedMutex is a mutex for each key, for resources that several pods share.
type keyedMutex struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed by the unlock
}

// lock waits for the mutex of a key, and returns the function that unlocks it.
func (t *keyedMutex) lock(ctx context.Context, thing string) (release func(), err error) {
	for {
		t.mu.Lock()
		before := t.held[thing]
		if before == nil {
			mine := make(chan struct{})
			t.held[thing] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.held, thing)
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
