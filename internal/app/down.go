package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"time"

	"berth/internal/config"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/cgroup"
	"berth/internal/pods/cgroup/systemd"
	"berth/internal/pods/volume"
	"berth/internal/runtime/cri"
)

// OwnGrace lets every pod take the time that it asks for.
const OwnGrace int64 = -1

// Down stops all pods, each within grace seconds if that is not negative, and the
// runtime if it is ours.
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
	// A driver that is no pod may have its socket in there, which keeps it mounted. The
	// rest has to go all the same.
	var busy error
	for _, dir := range sharedMountDirs(c) {
		busy = errors.Join(busy, volume.UnshareMounts(dir))
	}
	if busy != nil {
		log.Warn("a directory stays mounted on itself, which hurts nobody: 'berth down' takes it away once nobody uses it", "err", busy)
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

// stopAllPods is an agent whose only source wants no pods at all: whatever the
// runtime has is an orphan, and is ended as one.
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
	alone.Cluster.Kubeconfig = ""    // its cluster has no say in this
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
	// While no source has spoken, the agent takes no pod for an orphan by itself.
	if err := stopUsersOfDrivers(ctx, n, client, grace, changed); err != nil {
		return err
	}
	snapshots <- pod.Snapshot{Source: pod.SourceFile, Op: pod.Set}
	return waitGone(ctx, n, grace, changed, func() (int, error) {
		left, err := remainingPods(ctx, client, n)
		return max(len(left), len(n.core.Pool.Lives())), err
	})
}

// stopUsersOfDrivers ends the pods with volumes of CSI drivers before all others: the
// drivers, which take these volumes away, may be pods, too. One that does not do so in
// half of the time that there is holds up the others no longer.
func stopUsersOfDrivers(ctx context.Context, n *podRunner, client *cri.Client, grace int64, changed <-chan struct{}) error {
	users, err := n.drivers.Users()
	if err != nil || len(users) == 0 {
		return err
	}
	there, err := remainingPods(ctx, client, n)
	if err != nil {
		return err
	}
	half, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	defer cancel()
	for uid := range users {
		if o := there[uid]; o != nil {
			n.core.Pool.Orphan(*o)
		}
	}
	err = waitGone(half, n, grace, changed, func() (int, error) {
		there, err := remainingPods(half, client, n)
		maps.DeleteFunc(there, func(uid pod.UID, _ *pod.Observed) bool { return !users[uid] })
		return len(there), err
	})
	if err != nil && half.Err() != nil && ctx.Err() == nil {
		n.log.Warn("the drivers of some volumes do not take them away; going on with the other pods", "err", err)
		return nil
	}
	return err
}

// waitGone waits until no pods are left. Until then, all that are being ended have no more
// than grace seconds, if that is not negative.
func waitGone(ctx context.Context, n *podRunner, grace int64, changed <-chan struct{}, left func() (int, error)) error {
	for {
		if grace >= 0 {
			for uid := range n.core.Pool.Lives() {
				n.core.Pool.End(uid, &grace, pod.Cause{Description: "all is taken down"})
			}
		}
		count, err := left()
		if count == 0 || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("%d pods are still there: %w", count, context.Cause(ctx))
		}
	}
}

// remainingPods returns the pods that have something in the runtime or on the disk.
func remainingPods(ctx context.Context, client *cri.Client, n *podRunner) (map[pod.UID]*pod.Observed, error) {
	there, err := n.onDisk()
	if err != nil {
		return nil, err
	}
	inRuntime, err := client.List(ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(there, inRuntime)
	return there, nil
}
