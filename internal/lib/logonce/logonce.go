// Package logonce decides which failures are worth a line in the log, so that whoever
// tries again and again does not fill it: the first of a row is, and that the row is
// over. Trouble that comes and goes is told once a minute at most. It is pure.
package logonce

import "time"

// Pause is the least time between two lines about the same trouble.
const Pause = time.Minute

// Streak is a row of failures of one kind. The zero value is one that has not begun. It is
// not for use by several goroutines at a time.
type Streak struct {
	logged bool      // and not over
	last   time.Time // when one was told, be it over or not
}

// Failed takes in a failure, and tells whether it is worth a line. A row of which the
// beginning was not told, since another was told shortly before, is told if it lasts.
func (r *Streak) Failed(now time.Time) bool {
	if r.logged || (!r.last.IsZero() && now.Sub(r.last) < Pause) {
		return false
	}
	r.logged, r.last = true, now
	return true
}

// Recovered takes in a success, and tells whether it is worth a line: somebody was told that
// there is trouble.
func (r *Streak) Recovered() bool {
	told := r.logged
	r.logged = false
	return told
}
