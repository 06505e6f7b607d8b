package cert

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/certificate"
	"k8s.io/klog/v2"
)

const (
	// clockCheckInterval is the time between two checks of the clock.
	clockCheckInterval = time.Minute
	// minClockJump is by how much it has to be off to have been set.
	minClockJump = 30 * time.Second
)

// renewal keeps one certificate good with client-go's certificate manager. That one
// sleeps until the hour has come, and does not notice that the clock was set or that
// the machine slept: then another one is started, which looks at the clock.
type renewal struct {
	start func() (stop func())
	clock func() time.Time // what is on the wall
	store *store
}

// newRenewal returns a renewal with a manager of this config. Log and store are set
// here.
func newRenewal(c certificate.Config, s *store) (*renewal, error) {
	c.CertificateStore = s
	// The context never ends: the manager is stopped.
	c.Ctx = new(klog.NewContext(context.Background(), logr.FromSlogHandler(s.report)))
	if _, err := certificate.NewManager(&c); err != nil {
		return nil, err
	}
	start := func() func() {
		manager, err := certificate.NewManager(&c)
		if err != nil { // it went well above
			s.report.failed(err)
			return func() {}
		}
		manager.Start()
		return manager.Stop
	}
	return &renewal{start: start, clock: func() time.Time { return time.Now().Round(0) }, store: s}, nil
}

// run renews until the context ends. A manager is told to stop then, but can't be
// waited for: it sleeps on until the hour of its next renewal, and then ends without
// having done anything. What it does before that does not get past the store.
func (r *renewal) run(ctx context.Context) {
	defer r.store.close()
	for ctx.Err() == nil {
		stop := r.start()
		r.awaitJump(ctx)
		stop()
	}
}

// awaitJump returns when the clock was set, or the context ends.
func (r *renewal) awaitJump(ctx context.Context) {
	tick := time.NewTicker(clockCheckInterval)
	defer tick.Stop()
	began, showed := time.Now(), r.clock()
	for {
		select {
		case <-tick.C:
			off := r.clock().Sub(showed) - time.Since(began)
			if off.Abs() > minClockJump {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
