package app

import (
	"context"
	"errors"
	"log/slog"

	"berth/internal/api/localapi"
	"berth/internal/api/nodeapi"
	"berth/internal/config"
	"berth/internal/host/iptables"
	"berth/internal/host/kernel"
	"berth/internal/host/roots"
	"berth/internal/lib/logging"
	"berth/internal/lib/run"
	"berth/internal/pods/volume"
)

// Run runs the agent until ctx ends; containers go on running after that. First all parts are made,
// each from finished parts, then they are started: an agent that can't be made leaves no runtime behind.
func Run(ctx context.Context, c *config.Config, owner roots.Owner, logs *logging.Logger) error {
	log := logs.Logger
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	group := run.NewGroup(ctx, log)
	defer group.Stop()

	state, err := newAgentState(log)
	if err != nil {
		return err
	}
	group.Go("state files", state.Run)
	_ = state.Entry("the settings of this run", func() error { return c.Save() }).Save() // statefile retries
	listener, err := localapi.ListenInRoot(c.RootDir, log)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}
	telemetry, tracer, err := newTelemetry(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { _ = tracer.Stop() }() // spans that a collector does not take are lost
	// Mistakes in the configuration are found before anything is started.
	member, err := newMembership(c, telemetry.Metrics.ClientRenewFailed, log)
	if err != nil {
		return err
	}
	ports, err := nodeapi.Listen(ctx, apiPorts(c))
	if err != nil {
		return err
	}
	defer ports.Close() //nolint:errcheck // the server has closed them
	rt, err := newContainerRuntime(c, owner, state.Keeper, log)
	if err != nil {
		return err
	}
	log.Info("berth starts", "version", c.Version, "root", c.RootDir, "node", c.NodeName, "manifests", c.ManifestDir, "url", c.ManifestURL,
		"id", owner.ID(), "cgroup", c.CgroupRoot, "bridge", c.Bridge, "podCIDR", c.PodCIDR)
	kernel.SetOOMScore(c.OOMScore, log)
	if err := enterCgroup(c, log); err != nil {
		return err
	}
	client, err := rt.connect(c, telemetry)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	shareMounts(c, log)
	a, err := compose(ctx, depsConfig{config: c, runtime: rt, client: client, member: member, state: state, telemetry: telemetry, fail: fail, log: log}, logs)
	if err != nil {
		return exitError(ctx, err)
	}
	defer a.runner.stop()
	a.start(group, rt, ports, listener, fail)
	if err := maintainHost(group, c, log); err != nil {
		return err
	}
	handleSignals(ctx, a.runner, rt.signals)
	log.Info("berth ends; its pods go on", "cause", context.Cause(ctx))
	return exitError(ctx, ctx.Err())
}

// compose makes all parts, each from finished parts. They do nothing until the daemon is started.
func compose(ctx context.Context, in depsConfig, logs *logging.Logger) (*daemon, error) {
	d, err := newDeps(ctx, in)
	if err != nil {
		return nil, err
	}
	serving, err := newServingCert(d)
	if err != nil {
		return nil, err
	}
	n, err := newPodRunner(ctx, d, sourceNames(d), newCertificateExpiry(d.cluster, serving))
	if err != nil {
		return nil, err
	}
	a, err := newDaemon(n, serving, logs)
	if err != nil {
		n.stop()
		return nil, err
	}
	return a, nil
}

// maintainHost starts what keeps the machine as a kubelet does, apart from its pods.
func maintainHost(group *run.Group, c *config.Config, log *slog.Logger) error {
	if c.IPTablesChains {
		group.Go("iptables chains", iptables.Chains{Log: log}.Keep)
	}
	return keepSystemCgroup(group, c, log)
}

// shareMounts makes the mounts in volumes propagate. Pods run without it, too.
func shareMounts(c *config.Config, log *slog.Logger) {
	for _, dir := range sharedMountDirs(c) {
		if err := volume.ShareMounts(dir); err != nil {
			log.Warn("what is mounted in volumes will not be seen by others (mountPropagation)", "err", err)
		}
	}
}

// exitError returns the error with which the agent ends: nil after a signal to end.
func exitError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
