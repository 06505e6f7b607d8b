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

// outage notes how requests to the API server go. That they fail is said once, and
// once that they no longer do, if not too often.
type outage struct {
	mu    sync.Mutex
	since time.Time // the first request began that failed, of those in a row; zero if the last one went well
	row   logonce.Streak
}

// recordResult takes in the result of a request, and returns for how long they have failed by
// now: if this one went well, for how long until it did.
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
			log.Info("the API server tells of pods again")
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
		log.Warn("the API server does not tell of pods; those that are known stay as they are", "err", err)
	}
	return time.Since(o.since)
}
