package probe

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/internal/lib/pod"
)

const (
	// lateAfter is when a running command is late: it hangs, or nearly so, costs little more than its
	// memory, and makes room for others.
	lateAfter = 3 * time.Second
	// maxLatePerSlot is the number of late commands for each slot.
	maxLatePerSlot = 8
)

// limits are the numbers of commands that may run at a time.
type limits struct {
	all       int // without late ones
	readiness int // readiness probes among all; the rest is for startup and liveness
	late      int
	pod       int // of one pod, late or not, and one more for startup and liveness
}

func limitsOf(slots int) limits {
	return limits{all: slots, readiness: slots - slots/4, late: slots * maxLatePerSlot, pod: max(1, slots/4)}
}

// command is an exec probe that runs or waits for a slot.
type command struct {
	uid  pod.UID
	kind kind
	turn chan struct{} // closed when it has a slot

	since time.Time // start of the command
	late  bool
	timer *time.Timer // fires when it is late
}

// next returns the index of the waiting command that may run now, or -1. Pods with fewer running
// commands go first, so that no pod blocks another.
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

// slots bounds the number of exec probes that run at a time.
type slots struct {
	limits limits

	mu      sync.Mutex
	waiting []*command // in the order of their arrival
	running []*command
}

func newSlots(n int) *slots { return &slots{limits: limitsOf(n)} }

// acquire waits for a slot. Unless it returns an error, the slot has to be released.
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

// release ends a command that has run, or that stops waiting.
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

// dispatch marks late commands, and gives free slots to waiting ones. The caller holds the lock.
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

// onLate runs when a command may have become late.
func (s *slots) onLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch()
}
