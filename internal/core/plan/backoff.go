package plan

import (
	"errors"
	"time"

	"berth/internal/lib/backoff"
	"berth/internal/lib/pod"
)

// Backoff are the rules for the pause before a container that ended is started
// again. The first restart is immediate; after that the pause doubles from Initial
// to Max. After a run of at least Reset it begins anew.
type Backoff struct {
	Initial time.Duration
	Max     time.Duration
	Reset   time.Duration
}

// DefaultBackoff has the kubelet's values.
var DefaultBackoff = Backoff{Initial: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute}

// Validate refuses rules by which a container would be restarted without a pause.
func (b Backoff) Validate() error {
	if b.Initial <= 0 || b.Max < b.Initial || b.Reset <= 0 {
		return errors.New("restart backoff: needs 0 < initial <= max and 0 < reset")
	}
	return nil
}

// after returns when a dead container may be started again, and the back-off of its successor.
func (b Backoff) after(dead *pod.Container, now time.Time) (until time.Time, next time.Duration) {
	wait := min(dead.Backoff, b.Max)
	// A container that could not be started has an end and no start.
	if !dead.StartedAt.IsZero() && dead.FinishedAt.Sub(dead.StartedAt) >= b.Reset {
		wait = 0
	}
	until = dead.FinishedAt.Add(wait)
	if dead.FinishedAt.After(now) {
		until = now // the clock was set back: how long ago that was is not known
	}
	return until, backoff.Exponential{First: b.Initial, Max: b.Max}.Next(wait)
}
