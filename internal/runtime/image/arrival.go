package image

import (
	"context"
	"fmt"
	"time"

	"berth/internal/lib/progress"
	"berth/internal/lib/run"
)

// progressInterval is the time between two readings of a pull's progress.
const progressInterval = time.Second

// arrival is the progress of an image that is being pulled.
type arrival struct {
	meter   *progress.Meter // nil while there is no progress to show
	started bool            // something of it
}

// update records how many bytes are here. If the total is not known any more after it was,
// all of the image may be here, and be unpacked: that is no stalled pull.
func (a *arrival) update(done, total int64, now time.Time) {
	switch {
	case total > 0:
		if a.meter == nil {
			a.meter = progress.NewMeter(now)
		}
		a.started = true
		a.meter.Add(done, total, now)
	case a.started:
		a.meter = nil
	}
}

// watch reads the progress of a pull, if the runtime reports it, until stop is called.
func (m *Manager) watch(ctx context.Context, what pull) (stop func()) {
	if m.PullProgress == nil {
		return func() {}
	}
	a := &arrival{meter: progress.NewMeter(time.Now())}
	m.mu.Lock()
	m.arrivals[what.image] = a
	m.mu.Unlock()
	watchers := run.NewGroup(ctx, m.Log)
	watchers.Go("look at pull of "+what.image, func(ctx context.Context) {
		for {
			select {
			case <-time.After(progressInterval):
			case <-ctx.Done():
				return
			}
			done, total := m.PullProgress(ctx, what.repository)
			m.mu.Lock()
			a.update(done, total, time.Now())
			m.mu.Unlock()
		}
	})
	return func() {
		watchers.Stop()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.arrivals[what.image] == a { // and not that of a pull with other credentials
			delete(m.arrivals, what.image)
		}
	}
}

// Progress returns the progress of an image that is being pulled. It is empty if no pull
// of the image runs, or if the runtime does not report progress.
func (m *Manager) Progress(image string) progress.Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.arrivals[image]
	if a == nil || a.meter == nil {
		return progress.Progress{}
	}
	return a.meter.Progress(time.Now())
}

// silentError is the error of a pull that the runtime gave up because no data came any more.
type silentError struct{ after time.Duration }

func (e silentError) Error() string {
	if e.after == 0 {
		return "nothing came from the registry for too long: the runtime gave up the pull"
	}
	return fmt.Sprintf("nothing came from the registry for %s: the pull was given up", e.after)
}
