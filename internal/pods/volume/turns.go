package volume

import (
	"context"
	"sync"
)

// turns lets one at a time do something to a thing that several pods share.
type turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{} // closed when it is given back
}

// take waits for the turn at a thing, and returns how to give it back.
func (t *turns) take(ctx context.Context, thing string) (release func(), err error) {
	for {
		t.mu.Lock()
		before := t.taken[thing]
		if before == nil {
			mine := make(chan struct{})
			t.taken[thing] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.taken, thing)
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
