package main

import (
	"context"
	"log/slog"

	"berth/internal/config"
	"berth/internal/cri"
	"berth/internal/desired"
	"berth/internal/measure"
	"berth/internal/pod"
	"berth/internal/run"
	"berth/internal/shutdown"
)

// assemble makes the road of a pod, and what joins this machine to a cluster if it
// is to be in one. Nothing is asked of the runtime: it may not be there yet, or hang.
func assemble(ctx context.Context, c *config.Config, rt *containerRuntime, client *cri.Client, watcher *measure.Watcher, sources []string, log *slog.Logger) (*node, *cluster, error) {
	in := surroundings{
		owner: rt.owner, client: client, features: newFeatures(client, rt.cameUp, log), bundle: rt.bundle, watcher: watcher,
		wanted: desired.New(), upstream: standalone{}, moved: func() {}, sources: sources,
	}
	var err error
	if in.capacity, err = newCapacity(c, in.features); err != nil {
		return nil, nil, err
	}
	var shows *credentials
	if c.Cluster.Kubeconfig != "" {
		if shows, err = newCredentials(c, log); err != nil {
			return nil, nil, err
		}
		if in.clients, err = shows.clients(&c.Cluster); err != nil {
			return nil, nil, err
		}
	}
	if in.diary, err = newDiary(ctx, c, in.clients, log); err != nil {
		return nil, nil, err
	}
	var joined *cluster
	if in.clients != nil {
		joined, err = newCluster(c, in.clients, shows, client, in.wanted, in.diary.recorder, watcher.Metrics.StatusWritten, log)
		if err != nil {
			return nil, nil, err
		}
		in.upstream, in.attaches, in.capacity.inCluster, in.capacity.pressure = joined, joined.node, joined.node.Node, joined.node.Pressure
		in.capacity.reread, in.moved, in.full = joined.node.Reread, joined.node.Look, joined.full
		in.sources = append(in.sources, pod.SourceAPI)
	}
	n, err := newNode(ctx, c, in, log)
	return n, joined, err
}

// watchShutdown makes what stops the pods of this machine when it goes down or is
// drained.
func watchShutdown(c *config.Config, n *node, joined *cluster, group *run.Group, log *slog.Logger) (*shutdown.Manager, error) {
	settings := shutdown.Config{Pods: n.pool, Gate: n.agent, Log: log, Periods: c.Shutdown}
	if joined != nil {
		settings.Show = joined.node.SetShutdown
	}
	manager, err := shutdown.New(settings)
	if err != nil || len(c.Shutdown) == 0 {
		return manager, err
	}
	watcher, err := shutdown.NewWatcher(shutdown.WatcherConfig{Manager: manager, Log: log, Connect: shutdown.ConnectLogind})
	if err != nil {
		return nil, err
	}
	group.Go("shutdown of the machine", watcher.Run)
	return manager, nil
}
