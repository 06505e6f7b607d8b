package source

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth/internal/lib/logonce"
)

// outage records the results of requests to the API server. It logs the first failure of
// a row and the recovery, at most one pair of lines per logonce.Pause.
type outage struct {
	mu    sync.Mutex
	since time.Time // when the first failed request of the row began; zero if the last one succeeded
	row   logonce.Streak
}

// recordResult records the result of a request that began at that time. It returns how
// long requests have failed so far or, after a success, how long they failed before it.
func (o *outage) recordResult(ctx context.Context, log *slog.Logger, began time.Time, err error) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil && o.since.IsZero():
		return 0
	case err == nil:
		away := time.Since(o.since)
		o.since = time.Time{}
		if o.row.Recovered() {
			log.Info("pods can be read from the API server again")
		}
		return away
	case errors.Is(ctx.Err(), context.Canceled):
		return 0 // the source is being stopped
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return 0 // the way of a server to ask for a new list
	}
	if o.since.IsZero() {
		o.since = began
	}
	if o.row.Failed(time.Now()) {
		log.Warn("pods can't be read from the API server; those that are known stay as they are", "err", err)
	}
	return time.Since(o.since)
}
