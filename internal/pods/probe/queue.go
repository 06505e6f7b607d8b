package probe

import (
	"context"
	"time"

	"berth/internal/lib/run"
)

// dispatch starts each probe when its turn has come. There is one timer for all
// of them, and none while no probe waits.
func (m *Manager) dispatch(ctx context.Context, group *run.Group) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		p, wait := m.due(time.Now())
		if p != nil {
			group.Go("probe", func(ctx context.Context) { m.runProbe(ctx, p) })
			continue
		}
		timer.Stop()
		if wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-m.queueChanged:
		case <-ctx.Done():
		}
	}
}

// due takes the first probe whose turn has come out of the queue. If there is
// none it tells how long to wait for one; zero: nobody waits.
func (m *Manager) due(now time.Time) (*probe, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, ok := m.queue.First()
	if !ok {
		return nil, 0
	}
	if wait := first.at.Sub(now); wait > 0 {
		return nil, wait
	}
	m.queue.Remove(first)
	first.running = true
	return first, 0
}
