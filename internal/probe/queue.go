package probe

import (
	"container/heap"
	"context"
	"time"

	"berth/internal/run"
)

// dispatch starts each probe when its turn has come. There is one timer for all
// of them, and none while no probe waits.
func (m *Manager) dispatch(ctx context.Context, group *run.Group) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		p, wait := m.due(time.Now())
		if p != nil {
			group.Go("probe", func(ctx context.Context) { m.take(ctx, p) })
			continue
		}
		timer.Stop()
		if wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-m.wake:
		case <-ctx.Done():
		}
	}
}

// due takes the first probe whose turn has come out of the queue. If there is
// none it tells how long to wait for one; zero: nobody waits.
func (m *Manager) due(now time.Time) (*probe, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return nil, 0
	}
	first := m.queue[0]
	if wait := first.at.Sub(now); wait > 0 {
		return nil, wait
	}
	heap.Pop(&m.queue)
	first.running = true
	return first, 0
}

// queue is a heap of probes by the time of their turn.
type queue []*probe

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	p := x.(*probe) //nolint:errcheck // heap hands on what wait gave it
	p.index = len(*q)
	*q = append(*q, p)
}

func (q *queue) Pop() any {
	old := *q
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	p.index = -1
	return p
}
