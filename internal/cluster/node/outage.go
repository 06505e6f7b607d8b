package node

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
)

// retryPause is the pause after a failed request. Max is short, so that an API server that comes
// back is noticed soon.
var retryPause = backoff.Exponential{First: 200 * time.Millisecond, Max: 3 * time.Second}

// retryJitter is the part of a pause by which it is lengthened at most, so that the nodes of a
// cluster do not retry at the same moment.
const retryJitter = 0.2

// outage is a series of failures of one kind of request. It is logged when it begins, when the
// reason in the API server's answer changes, and when it ends, but not too often. One goroutine
// uses it.
type outage struct {
	log      *slog.Logger
	what     string
	failures int
	since    time.Time
	streak   logonce.Streak
	logged   bool                // whether this outage was logged
	reason   metav1.StatusReason // as it was logged
}

// failed records a failure, and returns the pause before the next attempt.
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
	o.failures++
	return retryPause.Lengthened(o.failures, retryJitter)
}

// over records a success, and reports whether there was an outage before it.
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
