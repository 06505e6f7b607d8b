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
	// minClockJump is the least difference between wall clock and elapsed time for which the clock
	// counts as set.
	minClockJump = 30 * time.Second
)

// renewal renews one certificate with client-go's certificate manager. The manager sleeps until the next
// renewal is due, and does not notice that the clock was set or that the machine was suspended. After
// such a jump the renewal starts another manager, which reads the clock again.
type renewal struct {
	start func() (stop func())
	clock func() time.Time // the wall clock
	store *store
}

// newRenewal returns a renewal whose managers have this config, with the log and the store of s.
func newRenewal(c certificate.Config, s *store) (*renewal, error) {
	c.CertificateStore = s
	// The context never ends: the manager is stopped.
	c.Ctx = new(klog.NewContext(context.Background(), logr.FromSlogHandler(s.report)))
	if _, err := certificate.NewManager(&c); err != nil {
		return nil, err
	}
	start := func() func() {
		manager, err := certificate.NewManager(&c)
		if err != nil { // the same config was valid above
			s.report.failed(err)
			return func() {}
		}
		manager.Start()
		return manager.Stop
	}
	return &renewal{start: start, clock: func() time.Time { return time.Now().Round(0) }, store: s}, nil
}

// run renews until the context ends. Then the manager is stopped, but its goroutine can't be waited
// for: it sleeps until its next renewal is due, and ends without doing anything. The closed store
// refuses its writes.
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
