package stats

import (
	"context"
	"sync"
	"time"

	"berth/internal/lib/run"
)

const (
	// Files are counted at most this often, and never for more than a twentieth of
	// the time. Asking a file system for its own numbers costs little.
	countInterval  = time.Minute
	countShare     = 20
	statfsInterval = 5 * time.Second

	// measureTimeout is how long a reader waits for measurements. The result of one that takes
	// longer is in the next answer.
	measureTimeout = 300 * time.Millisecond
	// forgetAfter is how long the result of a place that is not read any more is kept.
	forgetAfter = 10 * time.Minute
	// countersAtOnce keeps the disk free for others.
	countersAtOnce = 2
)

// meter measures files and file systems, each in a goroutine of its own: a file system that
// hangs holds up no other, and is not measured again until it answers.
type meter struct {
	group      *run.Group
	measureOne func(context.Context, place) *Filesystem
	slots      chan struct{} // for counting

	mu     sync.Mutex
	places map[place]*measured
}

// place is a directory or a file system to be measured.
type place struct {
	path  string
	count bool // the files below it; else the file system that it is on
}

// measured is the state of one place.
type measured struct {
	usedAt time.Time
	next   time.Time     // not before
	busy   chan struct{} // closed when the measurement that runs is over; nil: none does
	result *Filesystem   // nil: none yet
}

func newMeter(group *run.Group, measurePlace func(context.Context, place) *Filesystem) *meter {
	return &meter{group: group, measureOne: measurePlace, slots: make(chan struct{}, countersAtOnce), places: map[place]*measured{}}
}

// measure returns the newest results for some places, in their order, and waits a moment for
// places that have no result yet.
func (m *meter) measure(ctx context.Context, places []place) []*Filesystem {
	deadline, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	for _, busy := range m.begin(places) {
		select {
		case <-busy:
		case <-deadline.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*Filesystem, len(places))
	for i, p := range places {
		if known := m.places[p]; known != nil {
			out[i] = known.result
		}
	}
	return out
}

// begin starts the measurements that are due, and returns the channels of those that run for
// places without a result.
func (m *meter) begin(places []place) []<-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var wait []<-chan struct{}
	for _, p := range places {
		known := m.places[p]
		if known == nil {
			known = &measured{}
			m.places[p] = known
		}
		known.usedAt = now
		if known.busy == nil && !now.Before(known.next) {
			busy := make(chan struct{})
			known.busy = busy
			m.group.Go("measure "+p.path, func(ctx context.Context) { m.run(ctx, p, known, busy) })
		}
		if known.busy != nil && known.result == nil {
			wait = append(wait, known.busy)
		}
	}
	for p, known := range m.places {
		if known.busy == nil && now.Sub(known.usedAt) > forgetAfter {
			delete(m.places, p)
		}
	}
	return wait
}

func (m *meter) run(ctx context.Context, p place, known *measured, busy chan struct{}) {
	if p.count {
		select {
		case m.slots <- struct{}{}:
			defer func() { <-m.slots }()
		case <-ctx.Done():
		}
	}
	began := time.Now()
	result := m.measureOne(ctx, p)
	pause := statfsInterval
	if p.count {
		pause = max(countInterval, countShare*time.Since(began))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known.result, known.next, known.busy = result, time.Now().Add(pause), nil
	close(busy)
}
