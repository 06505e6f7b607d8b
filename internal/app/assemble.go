package app

import (
	"context"
	"log/slog"

	"berth/internal/cluster/shutdown"
	"berth/internal/config"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/runtime/cri"
	"berth/internal/telemetry/measure"
)

// assemble makes the road of a pod, and what joins this machine to a cluster if it
// is a member of one: member is nil if it is not. Nothing is asked of the runtime: it may not
// be there yet, or hang.
func assemble(
	ctx context.Context, c *config.Config, rt *containerRuntime, client *cri.Client, member *membership, state *agentState, watcher *measure.Recorder, sources []string, log *slog.Logger,
) (*node, *cluster, error) {
	in := surroundings{
		owner: rt.owner, client: client, features: newFeatures(client, rt.cameUp, log), bundle: rt.bundle, watcher: watcher,
		wanted: desired.New(), upstream: standalone{}, moved: func() {}, sources: sources, state: state.Keeper, full: state.full,
	}
	var err error
	if in.ports, err = newHostPorts(rt.owner, log); err != nil {
		return nil, nil, err
	}
	if in.capacity, err = newCapacity(c, in.features, in.ports); err != nil {
		return nil, nil, err
	}
	if member != nil {
		in.clients = member.clients
	}
	if in.diary, err = newDiary(ctx, c, in.clients, in.state, log); err != nil {
		return nil, nil, err
	}
	var joined *cluster
	if member != nil {
		joined, err = newCluster(c, member, client, in.wanted, state.full, in.diary.recorder, watcher.Metrics.StatusWritten, log)
		if err != nil {
			return nil, nil, err
		}
		in.upstream, in.attaches, in.capacity.inCluster, in.capacity.pressure = joined, joined.node, joined.node.Node, joined.node.Pressure
		in.capacity.reread, in.moved = joined.node.Reload, joined.node.Refresh
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
