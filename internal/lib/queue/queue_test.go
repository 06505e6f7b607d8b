package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func drain[T comparable](q *Queue[T]) []T {
	var out []T
	for {
		first, ok := q.First()
		if !ok {
			return out
		}
		q.Remove(first)
		out = append(out, first)
	}
}

func TestMembersStandInTheOrderOfTheRule(t *testing.T) {
	q := New(func(a, b int) bool { return a < b })
	for _, n := range rand.Perm(100) {
		q.Put(n)
	}
	for n := range 100 {
		if n%3 == 0 && !q.Remove(n) {
			t.Errorf("%d is not in the queue", n)
		}
	}
	if q.Len() != 66 || q.Has(30) || !q.Has(31) || q.Remove(30) {
		t.Errorf("there are %d", q.Len())
	}

	left := drain(q)

	if len(left) != 66 || !slices.IsSorted(left) {
		t.Errorf("got %v", left)
	}
}

func TestAMemberWhosePlaceChanges(t *testing.T) {
	turn := map[string]int{"a": 1, "b": 2, "c": 3}
	q := New(func(a, b string) bool { return turn[a] < turn[b] })
	for name := range turn {
		q.Put(name)
	}

	turn["c"] = 0
	q.Put("c")
	turn["a"] = 4
	q.Put("a")

	if got := drain(q); !slices.Equal(got, []string{"c", "b", "a"}) {
		t.Errorf("got %v", got)
	}
	if _, ok := q.First(); ok || q.Len() != 0 {
		t.Error("it is not empty")
	}
}
