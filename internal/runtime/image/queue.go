package image

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
)

// queue lets a few pulls run at a time. Those for pods of high priority come first;
// among equals the small ones, where the size is known; and then who came first.
type queue struct {
	mu      sync.Mutex
	free    int
	last    int
	waiting []*turn
}

// turn is a place in the queue.
type turn struct {
	priority int32
	size     int64 // bytes; 0 is not known
	number   int
	ready    chan struct{} // closed when it is its turn
}

func newTurn(priority int32, size int64) *turn {
	return &turn{priority: priority, size: size, ready: make(chan struct{})}
}

// acquire waits until it is this one's turn, and returns what ends it.
func (q *queue) acquire(ctx context.Context, t *turn) (release func(), err error) {
	q.mu.Lock()
	q.last++
	t.number = q.last
	q.waiting = append(q.waiting, t)
	q.next()
	q.mu.Unlock()
	select {
	case <-t.ready:
		return sync.OnceFunc(q.release), nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else { // it was its turn in this moment
		q.free++
		q.next()
	}
	return nil, ctx.Err()
}

func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	q.next()
}

// raise lets a turn come earlier, because somebody of a higher priority waits, too.
func (q *queue) raise(t *turn, priority int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.priority = max(t.priority, priority)
}

// next hands out what is free. The caller holds the lock.
func (q *queue) next() {
	for ; q.free > 0 && len(q.waiting) > 0; q.free-- {
		first := slices.MinFunc(q.waiting, before)
		q.waiting = slices.DeleteFunc(q.waiting, func(t *turn) bool { return t == first })
		close(first.ready)
	}
}

func before(a, b *turn) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.sortSize(), b.sortSize()), cmp.Compare(a.number, b.number))
}

// sortSize is the size to compare by: what is not known counts as large.
func (t *turn) sortSize() int64 { return cmp.Or(t.size, math.MaxInt64) }
