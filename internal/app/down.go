package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"berth/internal/config"
	"berth/internal/core/teardown"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/cgroup"
	"berth/internal/pods/cgroup/systemd"
	"berth/internal/pods/volume"
)

// OwnGrace gives every pod its own grace period.
const OwnGrace = teardown.OwnGrace

// Down stops all pods, each within grace seconds if that is not negative, and the bundled runtime.
func Down(ctx context.Context, c *config.Config, grace int64, log *slog.Logger) error {
	owner, err := claimForTeardown(c, log)
	if err != nil {
		return err
	}
	state, err := newAgentState(log)
	if err != nil {
		return err
	}
	rt, err := newContainerRuntime(c, owner, state.Keeper, log)
	if err != nil {
		return err
	}
	if err := stopAllPods(ctx, c, rt, state, grace, log); err != nil {
		return err
	}
	// A CSI driver that is not a pod may have its socket in a shared directory, which keeps the
	// directory mounted. The rest is removed all the same.
	var busy error
	for _, dir := range sharedMountDirs(c) {
		busy = errors.Join(busy, volume.UnshareMounts(dir))
	}
	if busy != nil {
		log.Warn("a directory stays mounted on itself, which does no harm: 'berth down' takes it away once it is not in use", "err", busy)
	}
	if rt.bundle != nil {
		if err := rt.bundle.Teardown(ctx); err != nil {
			return err
		}
	}
	tree, err := cgroup.Open()
	if err != nil {
		return err
	}
	cgroups, err := cgroup.NewPods(cgroup.PodsConfig{Tree: tree, Owner: owner, Slices: systemd.New(systemd.Config{}), Log: log})
	if err != nil {
		return err
	}
	if err := cgroups.RemoveEmpty(ctx); err != nil {
		return err
	}
	return releaseRoot(owner)
}

// sharedMountDirs returns the directories whose mounts propagate between pods and drivers.
func sharedMountDirs(c *config.Config) []string {
	return []string{filepath.Join(c.RootDir, "pods"), filepath.Join(c.RootDir, "plugins")}
}

// stopAllPods runs an agent without sources until all pods are gone.
func stopAllPods(ctx context.Context, c *config.Config, rt *containerRuntime, state *agentState, grace int64, log *slog.Logger) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	group := run.NewGroup(ctx, log)
	defer group.Stop()
	rt.start(group, fail, log)
	telemetry, tracer, err := newTelemetry(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { _ = tracer.Stop() }() // spans that a collector does not take are lost
	client, err := rt.connect(c, telemetry)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if err := rt.awaitUp(ctx); err != nil {
		return fmt.Errorf("wait for the container runtime: %w", err)
	}
	alone := *c
	alone.Cluster.Kubeconfig = ""    // pods are ended without the cluster
	alone.Images.ProviderConfig = "" // nothing is pulled
	d, err := newDeps(ctx, depsConfig{config: &alone, runtime: rt, client: client, state: state, telemetry: telemetry, log: log})
	if err != nil {
		return err
	}
	n, err := newPodRunner(ctx, d, []string{pod.SourceFile}, certificateExpiry{})
	if err != nil {
		return err
	}
	defer n.stop()

	snapshots := make(chan pod.Snapshot, 1)
	changed := n.core.Agent.Watch(ctx)
	n.start(snapshots)
	return teardown.Run(ctx, teardown.Config{
		Workers: n.core.Pool, Changed: changed, InRuntime: client.List, OnDisk: n.onDisk, DriverUsers: n.drivers.Users, Log: log,
		NoPods: func() { snapshots <- pod.Snapshot{Source: pod.SourceFile, Op: pod.Set} },
	}, grace)
}
