// Package app composes the agent out of its parts, and runs it: it is the only package that knows all
// of them. Run makes them in the order in which they need each other:
//
//	deps         runtime client, events, cluster, capacity of the machine, cgroups
//	syncLoop     agent, observer, probes, objects
//	podServices  images, volumes, CSI drivers
//	podRunner    the core (loop, executor, workers) and measurements
//	daemon       sources of pods, shutdown, node API and local API
package app

import (
	"context"
	"time"

	"berth/internal/core"
	"berth/internal/intake/objects"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/probe"
	"berth/internal/telemetry/oom"
)

// podRunner runs pods on one runtime. All its parts are finished when it is made, and do nothing until
// start.
type podRunner struct {
	*deps
	*podServices
	core    *core.Core
	probes  *probe.Manager
	objects objects.Provider
	onDisk  podsOnDisk
	stats   *nodeStats
	oom     *oom.Watcher
	group   *run.Group
}

// newPodRunner makes the sync loop, the services of pods, and the workers. sources are the names of the
// sources of pods.
func newPodRunner(ctx context.Context, d *deps, sources []string, expiry certificateExpiry) (*podRunner, error) {
	group := run.NewGroup(ctx, d.log)
	loop, err := newSyncLoop(d, group, sources)
	if err != nil {
		return nil, err
	}
	services, err := newPodServices(group, d, loop)
	if err != nil {
		return nil, err
	}
	pods, err := newCore(group.Context(), d, loop, services)
	if err != nil {
		return nil, err
	}
	stats, err := newNodeStats(group.Context(), d, services, pods, expiry)
	if err != nil {
		return nil, err
	}
	watcher, err := newOOMWatcher(d, pods)
	if err != nil {
		return nil, err
	}
	return &podRunner{
		deps: d, core: pods, podServices: services, probes: loop.probes, objects: loop.objects, onDisk: loop.onDisk, stats: stats, oom: watcher, group: group,
	}, nil
}

// start starts the parts. snapshots come from the sources of pods.
func (c *podRunner) start(snapshots <-chan pod.Snapshot) {
	c.core.Start(snapshots)
	c.group.Go("probes", c.probes.Run)
	c.group.Go("cgroups", c.watchCgroups)
	c.group.Go("host ports", func(ctx context.Context) { c.ports.Run(ctx, c.core.Agent) })
	c.group.Go("addresses", func(ctx context.Context) {
		c.ips.Run(ctx, func() {
			c.refreshNode()
			c.core.Pool.EnqueueAll()
		})
	})
	c.group.Go("plugins", c.plugins.Run)
	if c.certificates != nil {
		c.group.Go("certificates of pods", c.certificates.Run)
	}
	if c.csiNode != nil {
		c.group.Go("csi node", c.csiNode.Run)
		c.group.Go("csi limits", c.csiNode.RunLimits)
	}
	c.events.start()
}

// stopTimeout bounds how long a hung call to the runtime delays the end of the agent.
const stopTimeout = 10 * time.Second

// stop ends the parts. Pods keep running.
func (c *podRunner) stop() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.core.Stop()
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
