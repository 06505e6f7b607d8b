package execute

import (
	"cmp"
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/queue"
)

// Slots limits how many pods make their start calls at a time. A runtime that is asked
// for sixty sandboxes at once makes all of them late; asked for two at a time, it
// is as fast in total and half of the pods are up in half of the time.
//
// Critical pods go first, then the oldest.
type Slots struct {
	size int

	mu    sync.Mutex
	free  int
	queue *queue.Queue[*waiter]
}

// NewSlots returns n free slots.
func NewSlots(n int) *Slots { return &Slots{size: n, free: n, queue: queue.New(goesFirst)} }

// Usage returns how many slots are taken and free, and how many pods wait for one.
func (s *Slots) Usage() (taken, free, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.free, s.free, s.queue.Len()
}

// Acquire waits for a slot. The caller calls release once its start calls are made.
func (s *Slots) Acquire(ctx context.Context, p *v1.Pod) (release func(), err error) {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return sync.OnceFunc(s.release), nil
	}
	w := &waiter{turn: make(chan struct{}), critical: pod.IsCritical(p), created: pod.Created(p), name: pod.FullName(p)}
	s.queue.Put(w)
	s.mu.Unlock()

	select {
	case <-w.turn:
		return sync.OnceFunc(s.release), nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.queue.Remove(w) { // it was handed a slot at the same moment
		s.handOver()
	}
	return nil, ctx.Err()
}

func (s *Slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handOver()
}

// handOver gives a slot that became free to the first pod in the queue. The caller holds the lock.
func (s *Slots) handOver() {
	first, ok := s.queue.First()
	if !ok {
		s.free++
		return
	}
	s.queue.Remove(first)
	close(first.turn)
}

type waiter struct {
	turn     chan struct{}
	critical bool
	created  time.Time
	name     string
}

// goesFirst is the order of the queue: critical pods, then older ones.
func goesFirst(a, b *waiter) bool {
	if a.critical != b.critical {
		return a.critical
	}
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) < 0
}
