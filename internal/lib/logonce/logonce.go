// Package logonce decides which failures of a retried operation are logged, so that
// retries do not fill the log: the first failure in a row, and the recovery. An operation
// that fails and recovers all the time is logged once a minute at most. It is pure.
package logonce

import (
	"slices"
	"time"
)

// Pause is the least time between the logged failures of two streaks.
const Pause = time.Minute

// Streak is a series of consecutive failures of one operation. The zero value is an operation that
// has not failed. It is not safe for concurrent use.
type Streak struct {
	kinds []string  // kinds of failures that were logged of the present streak, maxKinds at most
	last  time.Time // when a failure was last logged, in this streak or an earlier one
}

// maxKinds bounds the kinds of failures of one streak that are logged. More of them may be one kind
// whose text changes.
const maxKinds = 5

// Failed records a failure, and reports whether to log it. A streak whose first failure was not
// logged, because of one shortly before, is logged once Pause has passed.
func (r *Streak) Failed(now time.Time) bool { return r.FailedAs("", now) }

// FailedAs is Failed for an operation that fails for several reasons: each kind of failure is logged
// once per streak. The kind may be the text of the error.
func (r *Streak) FailedAs(kind string, now time.Time) bool {
	recent := !r.last.IsZero() && now.Sub(r.last) < Pause
	switch {
	case slices.Contains(r.kinds, kind), recent && len(r.kinds) == 0:
		return false
	case len(r.kinds) == maxKinds:
		if recent {
			return false
		}
		r.kinds = r.kinds[1:]
	}
	r.kinds, r.last = append(r.kinds, kind), now
	return true
}

// Recovered records a success, and reports whether to log it: it is logged if the failures before it
// were.
func (r *Streak) Recovered() bool {
	logged := len(r.kinds) > 0
	r.kinds = nil
	return logged
}
