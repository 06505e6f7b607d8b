package volume

import (
	"context"
	"sync"
)

// keyedMutex lets one at a time do something to a thing that several pods share.
type keyedMutex struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when it is given back
}

// lock waits for the turn at a thing, and returns how to give it back.
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
