package app

import (
	"context"
	"net"
	"time"

	"berth/internal/api/localapi"
	"berth/internal/api/nodeapi"
	"berth/internal/cluster/cert"
	"berth/internal/host/sdnotify"
	"berth/internal/lib/logging"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// daemon is the podRunner with the sources of its pods and the APIs of the agent. Its parts are
// finished, and do nothing until start.
type daemon struct {
	runner   *podRunner
	sources  []podSource
	shutdown *shutdownHandler
	nodeAPI  *nodeAPIServer
	localAPI *localapi.Server
}

// newDaemon makes sources and APIs for a podRunner. serving is nil if no port needs a certificate.
func newDaemon(n *podRunner, serving *cert.Serving, logs *logging.Logger) (*daemon, error) {
	sources, err := newSources(n.deps, n.objects.Local)
	if err != nil {
		return nil, err
	}
	shutdown, err := newShutdown(n)
	if err != nil {
		return nil, err
	}
	nodeAPI, err := newNodeAPIServer(n, serving, logs)
	if err != nil {
		return nil, err
	}
	localAPI, err := newLocalAPI(n, nodeAPI, shutdown.manager)
	if err != nil {
		return nil, err
	}
	return &daemon{runner: n, sources: sources, shutdown: shutdown, nodeAPI: nodeAPI, localAPI: localAPI}, nil
}

// start starts the parts. The APIs answer, and the cluster gets its Node, before the runtime is up,
// which may take long: only pods wait for the runtime. socket is nil if there is no directory for a
// local socket.
func (a *daemon) start(group *run.Group, rt *containerRuntime, ports nodeapi.Listeners, socket net.Listener, fail func(error)) {
	n := a.runner
	a.shutdown.start(group)
	a.nodeAPI.start(group, ports, fail)
	rt.start(group, fail, n.log)
	recordMachine(n.config, n.tree.V2(), n.events.recorder)
	group.Go("out of memory", n.oom.Run)
	snapshots := make(chan pod.Snapshot)
	n.start(snapshots)
	group.Go("signs of life", (&sdnotify.Notifier{Alive: n.core.Agent.Alive, Log: n.log}).Run)
	group.Go("image gc", n.core.OnceUp(n.imageGC.Run))
	if n.cluster != nil {
		n.telemetry.Metrics.RegistrationStarted(time.Now())
		n.cluster.start(group, rt, n.client, n.objects.API, n.core.Agent.Alive, fail)
	}
	for _, s := range a.sources {
		group.Go("source", func(ctx context.Context) { s.Run(ctx, snapshots) })
	}
	if socket != nil {
		group.Go("server", func(ctx context.Context) {
			if err := a.localAPI.Serve(ctx, socket); err != nil {
				fail(err)
			}
		})
	}
}

// handleSignals passes signals of the runtime and of the cluster on to the parts that they concern,
// until ctx ends.
func handleSignals(ctx context.Context, n *podRunner, runtime *runtimeSignals) {
	var registered, changed <-chan struct{} // nil without a cluster
	if n.cluster != nil {
		registered, changed = n.cluster.registered, n.cluster.changed
	}
	for {
		select {
		case <-runtime.up:
			n.core.Resync()
		case <-runtime.imported:
			if err := n.images.Loaded(ctx, runtime.takeImported()); err != nil {
				n.log.Warn("images of an archive are not for all pods", "err", err)
			}
			n.refreshNode() // the Node lists the images
		case <-registered:
			n.telemetry.Metrics.Registered(time.Now())
			n.core.Agent.Remirror(ctx)
		case <-changed:
			n.drivers.Attached(ctx)
		case <-ctx.Done():
			return
		}
	}
}
