// Package logonce decides which failures of a retried operation are logged, so that
// retries do not fill the log: the first failure in a row, and the recovery. An operation
// that fails and recovers all the time is logged once a minute at most. It is pure.
package logonce

import "time"

// Pause is the least time between the logged failures of two rows.
const Pause = time.Minute

// Streak is a row of failures of one operation. The zero value is an operation that has not
// failed. It is not for use by several goroutines at a time.
type Streak struct {
	logged bool      // the present row was logged
	last   time.Time // when a failure was last logged, in this row or an earlier one
}

// Failed records a failure, and tells whether to log it. A row whose first failure was not
// logged, because of one shortly before, is logged once Pause has passed.
func (r *Streak) Failed(now time.Time) bool {
	if r.logged || (!r.last.IsZero() && now.Sub(r.last) < Pause) {
		return false
	}
	r.logged, r.last = true, now
	return true
}

// Recovered records a success, and tells whether to log it: the failures before it were
// logged.
func (r *Streak) Recovered() bool {
	told := r.logged
	r.logged = false
	return told
}
