package image

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
)

// queue limits how many pulls run at a time. Pulls for pods of high priority come first;
// among equals the smallest image, where the size is known; and then the oldest pull.
type queue struct {
	mu      sync.Mutex
	free    int
	last    int
	waiting []*turn
}

// turn is the place of a pull in the queue.
type turn struct {
	priority int32
	size     int64 // bytes; 0 is not known
	number   int
	ready    chan struct{} // closed when it is its turn
}

func newTurn(priority int32, size int64) *turn {
	return &turn{priority: priority, size: size, ready: make(chan struct{})}
}

// acquire waits until a pull may run, and returns the function that ends its turn.
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

// raise raises the priority of a turn, because a pod of a higher priority waits for it, too.
func (q *queue) raise(t *turn, priority int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.priority = max(t.priority, priority)
}

// next lets the first pulls of the queue run while there are free places. The caller holds
// the lock.
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

// sortSize is the size to sort by: an image of unknown size counts as large.
func (t *turn) sortSize() int64 { return cmp.Or(t.size, math.MaxInt64) }
