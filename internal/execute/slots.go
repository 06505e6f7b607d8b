package execute

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// Slots let a few pods at a time make their start calls. A runtime that is asked
// for sixty sandboxes at once makes all of them late; asked for two at a time, it
// is as fast in total and half of the pods are up in half of the time.
//
// Critical pods go first, then the oldest.
type Slots struct {
	size int

	mu    sync.Mutex
	free  int
	queue waiters
}

// NewSlots returns n free slots.
func NewSlots(n int) *Slots { return &Slots{size: n, free: n} }

// Load tells how many slots are taken and free, and how many pods wait for one.
func (s *Slots) Load() (taken, free, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.free, s.free, len(s.queue)
}

// Take waits for a slot. The caller calls release once its start calls are made.
func (s *Slots) Take(ctx context.Context, p *v1.Pod) (release func(), err error) {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return sync.OnceFunc(s.give), nil
	}
	w := &waiter{turn: make(chan struct{}), critical: pod.IsCritical(p), created: pod.Created(p), name: pod.FullName(p)}
	heap.Push(&s.queue, w)
	s.mu.Unlock()

	select {
	case <-w.turn:
		return sync.OnceFunc(s.give), nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.index < 0 { // its turn came at the same moment
		s.next()
	} else {
		heap.Remove(&s.queue, w.index)
	}
	return nil, ctx.Err()
}

func (s *Slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next()
}

// next hands a slot that became free to the first in line.
func (s *Slots) next() {
	if len(s.queue) == 0 {
		s.free++
		return
	}
	first := s.queue[0]
	heap.Pop(&s.queue)
	close(first.turn)
}

type waiter struct {
	turn     chan struct{}
	critical bool
	created  time.Time
	name     string
	index    int // in the queue; -1 once it has left it
}

// waiters is a heap of who waits, the first in line on top.
type waiters []*waiter

func (q waiters) Len() int { return len(q) }

func (q waiters) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.critical != b.critical {
		return a.critical
	}
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) < 0
}

func (q waiters) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *waiters) Push(x any) {
	w := x.(*waiter) //nolint:errcheck // heap hands on what Take gave it
	w.index = len(*q)
	*q = append(*q, w)
}

func (q *waiters) Pop() any {
	old := *q
	w := old[len(old)-1]
	old[len(old)-1] = nil
	w.index = -1
	*q = old[:len(old)-1]
	return w
}
