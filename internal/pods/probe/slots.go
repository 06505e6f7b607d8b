package probe

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/internal/lib/pod"
)

const (
	// lateAfter is when a command is one that hangs, or nearly so: it costs little
	// more than its memory, and makes room for others.
	lateAfter = 3 * time.Second
	// maxLatePerSlot is how many such there may be for each slot.
	maxLatePerSlot = 8
)

// limits say how many commands run at a time.
type limits struct {
	all       int // that are not late
	readiness int // of those; the rest is for those on which a container's life depends
	late      int
	pod       int // of one pod, late or not; and one more on which a life depends
}

func limitsOf(slots int) limits {
	return limits{all: slots, readiness: slots - slots/4, late: slots * maxLatePerSlot, pod: max(1, slots/4)}
}

// command is one that runs, or waits until it may.
type command struct {
	uid  pod.UID
	kind kind
	turn chan struct{} // closed when it may run

	since time.Time // it runs
	late  bool
	timer *time.Timer // for when it will be late
}

// next is who of those that wait may run now, by its place in the line; -1: nobody.
// Pods of which less runs go first, so that no pod stands in the way of another.
func (l limits) next(running, waiting []*command) int {
	all, readinesses := 0, 0
	inPod, readinessInPod := map[pod.UID]int{}, map[pod.UID]int{}
	for _, c := range running {
		inPod[c.uid]++
		if c.kind == readiness {
			readinessInPod[c.uid]++
		}
		switch {
		case c.late:
		case c.kind == readiness:
			readinesses++
			all++
		default:
			all++
		}
	}
	found := -1
	if all >= l.all {
		return found
	}
	for i, c := range waiting {
		if c.kind == readiness && (readinesses >= l.readiness || readinessInPod[c.uid] >= l.pod) {
			continue
		}
		if inPod[c.uid] > l.pod {
			continue
		}
		if found < 0 || inPod[c.uid] < inPod[waiting[found].uid] {
			found = i
		}
	}
	return found
}

// slots let commands run, a few at a time.
type slots struct {
	limits limits

	mu      sync.Mutex
	waiting []*command // in the order in which they came
	running []*command
}

func newSlots(n int) *slots { return &slots{limits: limitsOf(n)} }

// acquire waits for a slot. If there is no error, it has to be given back.
func (s *slots) acquire(ctx context.Context, uid pod.UID, k kind) (*command, error) {
	c := &command{uid: uid, kind: k, turn: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, c)
	s.dispatch()
	s.mu.Unlock()
	select {
	case <-c.turn:
		return c, nil
	case <-ctx.Done():
		s.release(c)
		return nil, ctx.Err()
	}
}

// release says that a command has ended, or will not be run.
func (s *slots) release(c *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := func(o *command) bool { return o == c }
	s.waiting, s.running = slices.DeleteFunc(s.waiting, it), slices.DeleteFunc(s.running, it)
	if c.timer != nil {
		c.timer.Stop()
	}
	s.dispatch()
}

// dispatch puts aside what is late, and lets run what may. The caller holds the lock.
func (s *slots) dispatch() {
	now, late := time.Now(), 0
	for _, c := range s.running {
		if c.late {
			late++
		}
	}
	for _, c := range s.running {
		if !c.late && late < s.limits.late && now.Sub(c.since) >= lateAfter {
			c.late = true
			late++
		}
	}
	for {
		i := s.limits.next(s.running, s.waiting)
		if i < 0 {
			return
		}
		c := s.waiting[i]
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.running = append(s.running, c)
		c.since, c.timer = now, time.AfterFunc(lateAfter, s.onLate)
		close(c.turn)
	}
}

// onLate is for when something may be late.
func (s *slots) onLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch()
}
