package node

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/logonce"
)

// How long to wait after a failure. The longest pause is short, so that an API server that comes
// back is noticed at once; jitter keeps many nodes from asking together.
const (
	firstRetry   = 200 * time.Millisecond
	longestRetry = 3 * time.Second
	spread       = 0.2
)

// outage is a run of failures of one kind of work. It is logged when it begins, when the reason
// in the API server's answer changes, and when it ends, but not too often. It belongs to one
// goroutine.
type outage struct {
	log      *slog.Logger
	what     string
	failures int
	since    time.Time
	streak   logonce.Streak
	logged   bool                // whether this run was logged
	reason   metav1.StatusReason // as it was logged
}

// failed records a failure and returns how long to wait.
func (o *outage) failed(ctx context.Context, err error) time.Duration {
	now, reason := time.Now(), apierrors.ReasonForError(err)
	if o.failures == 0 {
		o.since = now
	}
	if reason != o.reason {
		o.streak.Recovered() // a failure with another reason begins a new streak
	}
	if ctx.Err() == nil && o.streak.Failed(now) {
		o.log.Warn("can't "+o.what+"; trying again", "err", err)
		o.reason, o.logged = reason, true
	}
	wait := min(firstRetry<<min(o.failures, 10), longestRetry)
	o.failures++
	return wait + time.Duration(rand.Float64()*spread*float64(wait))
}

// over records a success, and tells whether there was an outage before it.
func (o *outage) over() bool {
	if o.failures == 0 {
		return false
	}
	o.streak.Recovered()
	if o.logged {
		o.log.Info("can "+o.what+" again", "failures", o.failures, "after", time.Since(o.since).Round(time.Millisecond))
	}
	o.failures, o.logged = 0, false
	return true
}

// pause waits for d, or until wake receives. It returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
