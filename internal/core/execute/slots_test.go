package execute

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// aged is a pod that was created that many seconds ago.
func aged(name string, seconds int, edit ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace = name, "default"
	p.CreationTimestamp = metav1.NewTime(time.Unix(1_000_000-int64(seconds), 0))
	for _, e := range edit {
		e(p)
	}
	return p
}

func static(p *v1.Pod) { p.Annotations = map[string]string{pod.AnnotationSource: pod.SourceFile} }

func system(p *v1.Pod) { p.Spec.Priority = new(int32(2_000_000_000)) }

// acquire takes a slot that is free.
func acquire(t *testing.T, s *Slots) (release func()) {
	t.Helper()
	release, err := s.Acquire(t.Context(), aged("holder", 0))
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func TestCriticalPodsGoFirstThenTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		release := acquire(t, s)
		var order []string
		for _, p := range []*v1.Pod{
			aged("young", 1), aged("old", 100), aged("static", 2, static), aged("system", 3, system), aged("b", 50), aged("a", 50),
		} {
			go func() {
				release, err := s.Acquire(t.Context(), p)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, p.Name) // one at a time has the only slot
				release()
			}()
			synctest.Wait() // the pods queue in this order, which does not count
		}
		release()
		synctest.Wait()
		if want := []string{"system", "static", "old", "a", "b", "young"}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

func TestACallThatGivesUpWaitingTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		release := acquire(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		var gaveUp error
		go func() { _, gaveUp = s.Acquire(ctx, aged("impatient", 10)) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(gaveUp, context.Canceled) || s.queue.Len() != 0 {
			t.Fatalf("got %v; %d still wait", gaveUp, s.queue.Len())
		}
		release()
		acquire(t, s)()
	})
}

// A turn that comes at the same moment as the end of the wait goes to the next.
func TestATurnThatComesTooLateIsPassedOn(t *testing.T) {
	for range 50 { // which of the two is seen first is a matter of luck
		synctest.Test(t, func(t *testing.T) {
			s := NewSlots(1)
			release := acquire(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if release, err := s.Acquire(ctx, aged("first", 10)); err == nil {
					release()
				}
			}()
			synctest.Wait()
			next := false
			go func() {
				acquire(t, s)()
				next = true
			}()
			synctest.Wait()
			cancel()
			release()
			synctest.Wait()
			if !next || s.free != 1 {
				t.Fatalf("the next one was served: %t; %d slots are free", next, s.free)
			}
		})
	}
}

func TestASlotIsGivenBackOnce(t *testing.T) {
	s := NewSlots(2)
	release := acquire(t, s)
	release()
	release()
	if s.free != 2 {
		t.Errorf("%d slots are free, want 2", s.free)
	}
}

// Pods come, give up and go in any order: there are never more than n
// with a slot, and in the end all of them are free.
func TestNeverMoreThanTheSlotsThereAre(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			n := 1 + r.IntN(4)
			s := NewSlots(n)
			var mu sync.Mutex
			out := 0
			for i := range 60 {
				p := aged(fmt.Sprint(i), r.IntN(100))
				arrives, timeout, stays := jitter(r), jitter(r), jitter(r)
				go func() {
					time.Sleep(arrives)
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					release, err := s.Acquire(ctx, p)
					if err != nil {
						return
					}
					mu.Lock()
					if out++; out > n {
						t.Errorf("seed %d: %d have one of %d slots", seed, out, n)
					}
					mu.Unlock()
					time.Sleep(stays)
					mu.Lock()
					out--
					mu.Unlock()
					release()
				}()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if s.free != n || s.queue.Len() != 0 {
				t.Errorf("seed %d: %d of %d are free in the end, %d wait", seed, s.free, n, s.queue.Len())
			}
		})
	}
}

func jitter(r *rand.Rand) time.Duration { return time.Duration(r.IntN(500)) * time.Millisecond }
