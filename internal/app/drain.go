package app

import (
	"context"

	"berth/internal/api"
	"berth/internal/cluster/shutdown"
)

// Drains lets the local API drain the node.
type Drains struct{ Manager *shutdown.Manager }

// Drain implements localapi.Drains.
func (d Drains) Drain(ctx context.Context, r api.DrainRequest, report func(api.DrainEvent)) ([]string, error) {
	order := shutdown.Order{Grace: r.Grace, Timeout: r.Timeout, KeepStatic: r.KeepStatic}
	steps := map[shutdown.Step]api.DrainStep{
		shutdown.Began: api.DrainBegan, shutdown.Stopping: api.DrainStopping, shutdown.Stopped: api.DrainStopped, shutdown.Late: api.DrainLate,
	}
	return d.Manager.Drain(ctx, order, func(p shutdown.Progress) {
		report(api.DrainEvent{Step: steps[p.Step], Pods: p.Pods, Pod: p.Pod, Seconds: p.Time.Seconds()})
	})
}

// Undo implements localapi.Drains.
func (d Drains) Undo(ctx context.Context) error { return d.Manager.Undo(ctx) }
