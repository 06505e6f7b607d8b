package app

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/api/localapi"
	"berth/internal/api/nodeapi"
	"berth/internal/config"
	"berth/internal/host/roots"
	"berth/internal/lib/logging"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/volume"
)

// Run works until ctx ends. What runs of the pods goes on after that. The runtime is
// started when nothing of the start can fail any more, so one that fails leaves none behind.
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
	_ = state.Entry("the settings of this run", func() error { return SaveSettings(c) }).Save() // which tries again
	listener, err := listenLocally(c.RootDir, log)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}
	// What is wrong with the command line is found before anything is started.
	member, err := newMembership(c, log)
	if err != nil {
		return err
	}
	ports, err := nodeapi.Listen(ctx, apiPorts(c))
	if err != nil {
		return err
	}
	defer ports.Close() //nolint:errcheck // whoever serves them has closed them
	rt, err := newContainerRuntime(c, owner, state.Keeper, log)
	if err != nil {
		return err
	}
	var n *node // there before the sources run
	sources, names, err := newSources(c,
		func(ctx context.Context, objects []runtime.Object) { n.objects.Local.Set(ctx, objects) },
		func(p *v1.Pod) *v1.Pod { return n.objects.Local.WithOverhead(p) }, log)
	if err != nil {
		return err
	}
	log.Info("berth starts", "version", c.Version, "root", c.RootDir, "node", c.NodeName, "manifests", c.ManifestDir, "url", c.ManifestURL,
		"id", owner.ID(), "cgroup", c.CgroupRoot, "bridge", c.Bridge, "podCIDR", c.PodCIDR)
	takeScore(c.OOMScore, log)
	watcher, tracer, err := newWatcher(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { _ = tracer.Stop() }() // spans that a collector does not take are lost
	client, err := rt.connect(c, watcher)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	// Without it, pods run all the same: only what they mount does not travel.
	for _, dir := range mountedIn(c) {
		if err := volume.ShareMounts(dir); err != nil {
			log.Warn("what is mounted in volumes will not be seen by others (mountPropagation)", "err", err)
		}
	}
	var joined *cluster
	n, joined, err = assemble(ctx, c, rt, client, member, state, watcher, names, log)
	if err != nil {
		return whyEnded(ctx, err)
	}
	defer n.stop()
	goingDown, err := watchShutdown(c, n, joined, group, log)
	if err != nil {
		return err
	}
	answers, err := newAnswering(c, n, joined, client, logs)
	if err != nil {
		return err
	}
	store := imageStore{features: n.features, client: client, images: n.images, gc: n.imageGC, bundle: rt.bundle, log: log}
	local, err := localapi.New(localapi.Config{
		Pods: podsWithProgress{n.agent, n.images}, Logs: containerLogs{n.endings()}, Events: n.diary.store,
		Images: store, Inventory: newInventory(c, client, n, joined, goingDown.Closed), Waterfalls: watcher,
		Drains: Drains{goingDown}, EphemeralContainers: n.agent, Node: answers.Local(), Version: c.Version, Log: log,
	})
	if err != nil {
		return err
	}

	// Whoever asks is answered, and the cluster is told, before the runtime is there: it may
	// take long, or hang. Only pods wait for it.
	snapshots := make(chan pod.Snapshot)
	answers.start(group, ports, func(err error) { fail(err) })
	rt.start(group, fail, log)
	n.start(snapshots)
	group.Go("image gc", n.onceUp(n.imageGC.Run))
	var registered, changed <-chan struct{} // never, without a cluster
	if joined != nil {
		sources, registered, changed = append(sources, joined.pods), joined.registered, joined.changed
		watcher.Metrics.Joining(time.Now())
		joined.start(group, rt, client, n.objects.API, n.agent.Alive, func(err error) { fail(err) })
	}
	for _, s := range sources {
		group.Go("source", func(ctx context.Context) { s.Run(ctx, snapshots) })
	}
	if listener != nil {
		group.Go("server", func(ctx context.Context) {
			if err := local.Serve(ctx, listener); err != nil {
				fail(err)
			}
		})
	}
	for {
		select {
		case <-rt.up:
			n.runtimeIsBack()
		case <-rt.imported:
			if err := n.images.Loaded(ctx, rt.takeImported()); err != nil {
				log.Warn("images of an archive are not for all pods", "err", err)
			}
			if joined != nil {
				joined.node.Refresh() // the Node tells which images are here
			}
		case <-registered:
			watcher.Metrics.Registered(time.Now())
			n.agent.Remirror(ctx)
		case <-changed:
			n.drivers.Attached(ctx)
		case <-ctx.Done():
			log.Info("berth ends; its pods go on", "cause", context.Cause(ctx))
			return whyEnded(ctx, ctx.Err())
		}
	}
}

// whyEnded is nil if err only says that we were asked to end.
func whyEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
