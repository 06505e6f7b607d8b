// Package app composes the agent out of its parts, and runs it: it is the only package that knows all
// of them. Run makes them in the order in which they need each other:
//
//	deps         runtime client, events, cluster, capacity of the machine, cgroups
//	syncLoop     agent, observer, probes, objects
//	podServices  images, volumes, CSI drivers
//	podRunner    executor, workers and measurements
//	daemon       sources of pods, shutdown, node API and local API
package app

import (
	"context"
	"time"

	"berth/internal/core/execute"
	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// podRunner runs pods on one runtime. All its parts are finished when it is made, and stand still until
// start.
type podRunner struct {
	*deps
	*syncLoop
	*podServices
	executor *execute.Executor
	pool     *worker.Pool
	stats    *nodeStats
	group    *run.Group
}

// newPodRunner makes the sync loop, the services of pods, and the workers. sources are the names of the
// sources of pods.
func newPodRunner(ctx context.Context, d *deps, sources []string, expiry certificateExpiry) (*podRunner, error) {
	group := run.NewGroup(ctx, d.log)
	loop, err := newSyncLoop(d, sources)
	if err != nil {
		return nil, err
	}
	services, err := newPodServices(group.Context(), d, loop)
	if err != nil {
		return nil, err
	}
	executor, err := newExecutor(group.Context(), d, loop, services)
	if err != nil {
		return nil, err
	}
	pool, err := worker.New(group.Context(), worker.Config{
		Executor: executor, Observer: loop.observer, Log: d.log, EnqueueAt: loop.agent.EnqueueAt, PodGone: loop.agent.PodGone,
		SyncStarted: d.telemetry.SyncStarted, Restarted: d.telemetry.Restarted,
	})
	if err != nil {
		return nil, err
	}
	stats, err := newNodeStats(group.Context(), d, loop, services, executor, pool, expiry)
	if err != nil {
		return nil, err
	}
	return &podRunner{deps: d, syncLoop: loop, podServices: services, executor: executor, pool: pool, stats: stats, group: group}, nil
}

// start sets the parts in motion. snapshots come from the sources of pods.
func (c *podRunner) start(snapshots <-chan pod.Snapshot) {
	c.group.Go("agent", func(ctx context.Context) { c.agent.Run(ctx, c.pool, snapshots) })
	c.group.Go("observer", c.onceUp(c.observer.Run))
	c.group.Go("probes", c.probes.Run)
	c.group.Go("host ports", func(ctx context.Context) { c.ports.Run(ctx, c.agent) })
	c.group.Go("addresses", func(ctx context.Context) {
		c.ips.Run(ctx, func() {
			c.refreshNode()
			c.pool.EnqueueAll()
		})
	})
	c.group.Go("plugins", c.plugins.Run)
	if c.csiNode != nil {
		c.group.Go("csi node", c.csiNode.Run)
	}
	c.events.start()
}

// onceUp returns f for when the runtime has come up for the first time. Before that, calls to
// the runtime would only fail.
func (c *podRunner) onceUp(f func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		select {
		case <-c.features.up:
			f(ctx)
		case <-ctx.Done():
		}
	}
}

// stopTimeout is for how long a call to a runtime that hangs may hold up the end.
const stopTimeout = 10 * time.Second

// stop ends the parts and leaves the pods as they are.
func (c *podRunner) stop() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.group.Stop()
		c.pool.Stop()
		c.images.Stop()
		c.stats.reader.Stop()
		c.events.stop()
	}()
	select {
	case <-done:
	case <-time.After(stopTimeout):
		c.log.Warn("the runtime does not answer: ending without its answer")
	}
}

// resync reads all pods from a runtime that has come back, and syncs them: what happened while it was
// away caused no events.
func (c *podRunner) resync() {
	c.observer.Relist()
	c.pool.EnqueueAll()
}
