package observe

import "time"

// moment is a reading of two clocks: the one on the wall, which may be set and which the
// runtime writes on its events, and the one that only ever goes on.
type moment struct {
	wall      time.Time // without the reading of the other clock
	monotonic time.Duration
}

// newClock returns a clock.
func newClock() func() moment {
	start := time.Now()
	return func() moment {
		now := time.Now()
		return moment{wall: now.Round(0), monotonic: now.Sub(start)}
	}
}

// clockTolerance is by how much the clock on the wall may differ from the other one and count as
// not set: it is slowed down and hurried to keep the time.
const clockTolerance = 10 * time.Millisecond

// isAfter tells whether an event is known to have happened before m, as seen from now.
// Nobody knows if the clock on the wall was set since.
func (m moment) isAfter(event time.Time, now moment) bool {
	set := now.wall.Sub(m.wall) - (now.monotonic - m.monotonic)
	return event.Before(m.wall) && set.Abs() <= clockTolerance
}
