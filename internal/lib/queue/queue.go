// Package queue has a priority queue from which any member can be removed.
//
// A queue has no lock: the package that uses it has one.
package queue

import "container/heap"

// Queue is a priority queue. It holds each member once.
type Queue[T comparable] struct{ heap memberHeap[T] }

// New returns an empty queue. before reports whether a comes before b.
func New[T comparable](before func(a, b T) bool) *Queue[T] {
	return &Queue[T]{memberHeap[T]{before: before, index: map[T]int{}}}
}

// Len returns the number of members.
func (q *Queue[T]) Len() int { return len(q.heap.members) }

// Has reports whether a member is in the queue.
func (q *Queue[T]) Has(member T) bool {
	_, ok := q.heap.index[member]
	return ok
}

// Put inserts a member, or moves it to its place after its priority has changed. After such a
// change, Put has to be called before any other method.
func (q *Queue[T]) Put(member T) {
	if i, ok := q.heap.index[member]; ok {
		heap.Fix(&q.heap, i)
		return
	}
	heap.Push(&q.heap, member)
}

// First returns the first member, and false if the queue is empty.
func (q *Queue[T]) First() (first T, ok bool) {
	if q.Len() == 0 {
		return first, false
	}
	return q.heap.members[0], true
}

// Remove removes a member. It returns false if the member was not in the queue.
func (q *Queue[T]) Remove(member T) bool {
	i, ok := q.heap.index[member]
	if ok {
		heap.Remove(&q.heap, i)
	}
	return ok
}

// memberHeap is the heap.Interface of the queue.
type memberHeap[T comparable] struct {
	before  func(a, b T) bool
	members []T
	index   map[T]int // of each member in members
}

func (l *memberHeap[T]) Len() int           { return len(l.members) }
func (l *memberHeap[T]) Less(i, j int) bool { return l.before(l.members[i], l.members[j]) }
func (l *memberHeap[T]) Swap(i, j int) {
	l.members[i], l.members[j] = l.members[j], l.members[i]
	l.index[l.members[i]], l.index[l.members[j]] = i, j
}

func (l *memberHeap[T]) Push(x any) {
	member := x.(T) //nolint:errcheck // heap passes on what Put gave it
	l.index[member] = len(l.members)
	l.members = append(l.members, member)
}

func (l *memberHeap[T]) Pop() any {
	end := len(l.members) - 1
	last := l.members[end]
	clear(l.members[end:]) // the garbage collector can have the member
	l.members = l.members[:end]
	delete(l.index, last)
	return last
}
