package objects

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
)

// awayPause is the pause between two requests while the API server does not answer: one watch after
// the other sends a request to find out whether it is back.
var awayPause = backoff.Exponential{First: 100 * time.Millisecond, Max: 2 * time.Second}

// logAfter is how long failures must have lasted to be logged.
const logAfter = time.Second

// outage coordinates the retries of all watches while the API server does not answer.
// There can be hundreds of watches. If each tried again on its own, they would use up
// the requests that the node is allowed to make, and more urgent ones would wait.
type outage struct {
	log *slog.Logger

	mu       sync.Mutex
	since    time.Time     // of the first failure in a row; zero: the server answers
	back     chan struct{} // closed when it answers again; nil while it does
	failures int           // in a row, of all watches
	next     time.Time     // when one of the watches may ask again
	streak   logonce.Streak
}

func newOutage(log *slog.Logger) *outage { return &outage{log: log} }

// recordResult records the result of a request. It logs the beginning of an outage that
// lasts, and its end.
func (o *outage) recordResult(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !isAway(err) {
		if o.streak.Recovered() {
			o.log.Info("the objects that pods refer to can be read from the API server again", "after", time.Since(o.since).Round(time.Millisecond))
		}
		if o.back != nil {
			close(o.back)
		}
		o.since, o.back, o.failures = time.Time{}, nil, 0
		return
	}
	now := time.Now()
	if o.since.IsZero() {
		o.since, o.back = now, make(chan struct{})
	}
	o.failures++
	o.next = now.Add(awayPause.Jittered(o.failures))
	if now.Sub(o.since) >= logAfter && o.streak.Failed(now) {
		o.log.Warn("the objects that pods refer to can't be read from the API server; those that are known are used", "err", err)
	}
}

// awaitTurn waits until the server is back, or until it is the caller's turn to try.
func (o *outage) awaitTurn(ctx context.Context) {
	for {
		o.mu.Lock()
		now := time.Now()
		if o.since.IsZero() || !now.Before(o.next) {
			// Should the request hang, another watch takes the next turn.
			o.next = now.Add(awayPause.Max)
			o.mu.Unlock()
			return
		}
		rest, back := o.next.Sub(now), o.back
		o.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-back:
		case <-time.After(rest):
		}
	}
}

// isAway reports whether an error concerns the server as a whole: there was no answer, or
// one with status 429 or 5xx.
func isAway(err error) bool {
	if err == nil {
		return false
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return !ok || status.ErrStatus.Code >= http.StatusInternalServerError || status.ErrStatus.Code == http.StatusTooManyRequests
}
