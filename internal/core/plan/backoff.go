package plan

import (
	"errors"
	"time"

	"berth/internal/lib/pod"
)

// Backoff says how long a container that keeps ending waits before it is started
// again. The first restart is at once; after that the wait doubles from Initial
// to Max. A container that ran for Reset is well, and starts from the beginning.
type Backoff struct {
	Initial time.Duration
	Max     time.Duration
	Reset   time.Duration
}

// DefaultBackoff is what users of the kubelet know.
var DefaultBackoff = Backoff{Initial: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute}

// Validate refuses rules by which a container would spin.
func (b Backoff) Validate() error {
	if b.Initial <= 0 || b.Max < b.Initial || b.Reset <= 0 {
		return errors.New("restart backoff: needs 0 < initial <= max and 0 < reset")
	}
	return nil
}

// after returns when a dead container may be started again, and what the one
// that follows it is to wait in its turn.
func (b Backoff) after(dead *pod.Container, now time.Time) (until time.Time, next time.Duration) {
	wait := min(dead.Backoff, b.Max)
	// One that could not be started has an end and no beginning.
	if !dead.StartedAt.IsZero() && dead.FinishedAt.Sub(dead.StartedAt) >= b.Reset {
		wait = 0
	}
	until = dead.FinishedAt.Add(wait)
	if dead.FinishedAt.After(now) {
		until = now // the clock was set back: nobody knows how long ago that was
	}
	return until, min(max(b.Initial, 2*wait), b.Max)
}
