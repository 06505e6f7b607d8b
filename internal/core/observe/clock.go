package observe

import "time"

// moment is a reading of the wall clock, which may be set and is the clock of the runtime's events,
// and of the monotonic clock.
type moment struct {
	wall      time.Time // without a monotonic reading
	monotonic time.Duration
}

// newClock returns a function that reads both clocks.
func newClock() func() moment {
	start := time.Now()
	return func() moment {
		now := time.Now()
		return moment{wall: now.Round(0), monotonic: now.Sub(start)}
	}
}

// clockTolerance is how far the wall clock may drift from the monotonic one and still count as not
// set: NTP slews it.
const clockTolerance = 10 * time.Millisecond

// isAfter reports whether m is certainly after an event. It is not certain if the wall clock was set
// between m and now.
func (m moment) isAfter(event time.Time, now moment) bool {
	set := now.wall.Sub(m.wall) - (now.monotonic - m.monotonic)
	return event.Before(m.wall) && set.Abs() <= clockTolerance
}
