// Package queue has a queue that is ordered by a rule, whatever the order in which its
// members come, and which can be left at any time.
//
// A queue has no lock: its owner has one.
package queue

import "container/heap"

// Queue holds each member once.
type Queue[T comparable] struct{ line line[T] }

// New returns an empty queue that is sorted by before.
func New[T comparable](before func(a, b T) bool) *Queue[T] {
	return &Queue[T]{line[T]{before: before, index: map[T]int{}}}
}

// Len returns the number of members.
func (q *Queue[T]) Len() int { return len(q.line.members) }

// Has tells whether a member is in the queue.
func (q *Queue[T]) Has(member T) bool {
	_, ok := q.line.index[member]
	return ok
}

// Put inserts a member, or moves it to its place after its rank has changed. It has to be
// called before any other method then.
func (q *Queue[T]) Put(member T) {
	if i, ok := q.line.index[member]; ok {
		heap.Fix(&q.line, i)
		return
	}
	heap.Push(&q.line, member)
}

// First returns the first member, and false if the queue is empty.
func (q *Queue[T]) First() (first T, ok bool) {
	if q.Len() == 0 {
		return first, false
	}
	return q.line.members[0], true
}

// Remove removes a member. It returns false if the member was not in the queue.
func (q *Queue[T]) Remove(member T) bool {
	i, ok := q.line.index[member]
	if ok {
		heap.Remove(&q.line, i)
	}
	return ok
}

// line is the heap.Interface of the queue.
type line[T comparable] struct {
	before  func(a, b T) bool
	members []T
	index   map[T]int // of each in members
}

func (l *line[T]) Len() int           { return len(l.members) }
func (l *line[T]) Less(i, j int) bool { return l.before(l.members[i], l.members[j]) }
func (l *line[T]) Swap(i, j int) {
	l.members[i], l.members[j] = l.members[j], l.members[i]
	l.index[l.members[i]], l.index[l.members[j]] = i, j
}

func (l *line[T]) Push(x any) {
	member := x.(T) //nolint:errcheck // heap hands on what Put gave it
	l.index[member] = len(l.members)
	l.members = append(l.members, member)
}

func (l *line[T]) Pop() any {
	end := len(l.members) - 1
	last := l.members[end]
	clear(l.members[end:]) // what has left can be collected
	l.members = l.members[:end]
	delete(l.index, last)
	return last
}
