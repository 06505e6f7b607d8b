package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/cgroup"
	"berth/internal/config"
	"berth/internal/cri"
	"berth/internal/pod"
	"berth/internal/run"
	"berth/internal/volume"
)

// theirGrace lets every pod take the time that it asks for.
const theirGrace int64 = -1

func newDownCommand() *cobra.Command {
	var timeout time.Duration
	var grace int64
	var verbosity int
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the agent, its pods and its runtime",
		Long: `Down ends the agent if one runs, stops all pods with the grace that they ask for, and then the
container runtime. No process, mount, network link, firewall rule or cgroup of it is left.
Manifests and images stay: 'berth run' brings everything back.

If the agent was given a --container-runtime-endpoint, its pods are stopped and that runtime is
left alone.

A pod may ask for more time than you have: --grace-period is the most that each of them gets.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needRoot("down"); err != nil {
				return err
			}
			root, err := filepath.Abs(rootDir(cmd))
			if err != nil {
				return fmt.Errorf("find the root directory: %w", err)
			}
			c, err := savedSettings(root)
			if err != nil {
				return err
			}
			if c == nil {
				return fmt.Errorf("no berth ever ran on %s: give its root with --root-dir", root)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			lock, err := takeOver(ctx, root)
			if err != nil {
				return err
			}
			defer lock.release()
			log, err := newLogging(verbosity)
			if err != nil {
				return err
			}
			return down(ctx, c, grace, log.Logger)
		},
	}
	cmd.Flags().IntVar(&verbosity, "v", 0, "how much to log: 4 and more is for developers")
	cmd.Flags().Int64Var(&grace, "grace-period", theirGrace, "the most `seconds` that a pod may take to stop; below zero: what it asks for")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait for all of it")
	return cmd
}

// down stops all pods, each within grace seconds if that is not negative, and the
// runtime if it is ours.
func down(ctx context.Context, c *config.Config, grace int64, log *slog.Logger) error {
	rt, err := newContainerRuntime(c, log)
	if err != nil {
		return err
	}
	if err := stopAllPods(ctx, c, rt, grace, log); err != nil {
		return err
	}
	if err := volume.UnshareMounts(filepath.Join(c.RootDir, "pods")); err != nil {
		return err
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
	cgroups, err := cgroup.NewPods(cgroup.PodsConfig{Tree: tree, Root: c.CgroupRoot, Log: log})
	if err != nil {
		return err
	}
	return cgroups.RemoveEmpty()
}

// stopAllPods is an agent whose only source wants no pods at all: whatever the
// runtime has is an orphan, and is ended as one.
func stopAllPods(ctx context.Context, c *config.Config, rt *containerRuntime, grace int64, log *slog.Logger) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	group := run.NewGroup(ctx, log)
	defer group.Stop()
	rt.start(group, fail, log)
	watcher, tracer, err := newWatcher(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { _ = tracer.Stop() }() // spans that a collector does not take are lost
	client, err := rt.connect(ctx, c, watcher, log)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	alone := *c
	alone.Cluster.Kubeconfig = ""    // its cluster has no say in this
	alone.Images.ProviderConfig = "" // nothing is pulled
	n, _, err := assemble(ctx, &alone, rt, client, watcher, []string{pod.SourceFile}, log)
	if err != nil {
		return err
	}
	defer n.stop()

	snapshots := make(chan pod.Snapshot, 1)
	snapshots <- pod.Snapshot{Source: pod.SourceFile, Op: pod.Set}
	changed := n.agent.Watch(ctx)
	n.start(snapshots)
	for {
		if grace >= 0 {
			for uid := range n.pool.Lives() {
				n.pool.End(uid, &grace, pod.Cause{Why: "all is taken down"})
			}
		}
		left, err := podsLeft(ctx, client, n)
		if err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("%d pods are still there: %w", left, context.Cause(ctx))
		}
	}
}

// podsLeft counts the pods of which there is anything in the runtime or on the
// disk, or that a worker is not done with.
func podsLeft(ctx context.Context, client *cri.Client, n *node) (int, error) {
	left, err := n.onDisk()
	if err != nil {
		return 0, err
	}
	inRuntime, err := client.List(ctx)
	if err != nil {
		return 0, err
	}
	maps.Copy(left, inRuntime)
	return max(len(left), len(n.pool.Lives())), nil
}
