package probe

import (
	"context"
	"time"

	"berth/internal/lib/run"
)

// dispatch runs each probe when it is due. One timer serves all probes.
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

// due removes the first probe from the queue if it is due. Else it returns the time until then; zero:
// the queue is empty.
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
