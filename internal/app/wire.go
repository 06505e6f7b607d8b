// Package app composes the agent out of its parts, and runs it: it is the only package that knows all
// of them.
package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"berth/internal/cluster/kubeclient"
	"berth/internal/config"
	"berth/internal/core/agent"
	"berth/internal/core/observe"
	"berth/internal/core/status"
	"berth/internal/core/worker"
	"berth/internal/host/roots"
	"berth/internal/intake/desired"
	"berth/internal/intake/objects"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/lib/statefile"
	"berth/internal/pods/cgroup"
	"berth/internal/pods/csi"
	"berth/internal/pods/ephemeral"
	"berth/internal/pods/orphan"
	"berth/internal/pods/plugins"
	"berth/internal/pods/probe"
	"berth/internal/pods/volume"
	"berth/internal/runtime/bundle"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/image"
	"berth/internal/runtime/imagegc"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/measure"
)

// This file and hands.go are the only places that know all parts of the road. They
// make them and put them together.

const (
	auditEvery        = time.Minute
	listEvery         = time.Second // of a runtime without events
	housekeepingEvery = time.Minute

	execProbes = 8 // at a time, of all pods: each is a process in a container
)

// node is the road of a pod on one runtime.
type node struct {
	features *features
	ports    *hostPorts
	agent    *agent.Agent
	statuses *status.Store
	images   *image.Manager
	imageGC  *imagegc.Collector
	observer *observe.Observer
	pool     *worker.Pool
	probes   *probe.Manager
	objects  objects.Provider
	volumes  *volume.Manager
	plugins  *plugins.Watcher
	drivers  *csi.Manager
	csiNode  *csi.Reporter // nil without a cluster
	cgroups  *cgroup.Pods
	ips      *addresses
	moved    func()
	onDisk   func() (map[pod.UID]*pod.Observed, error) // the pods that left something there
	diary    *diary
	state    *statefile.Keeper
	measured *measured
	group    *run.Group
	log      *slog.Logger
}

// surroundings is what the road of a pod leads through.
type surroundings struct {
	owner    roots.Owner
	client   *cri.Client
	features *features
	bundle   *bundle.Runtime // nil if the runtime was given
	watcher  *measure.Recorder
	clients  *kubeclient.Clients // nil without a cluster
	wanted   *desired.Set
	upstream upstream
	attaches csi.Cluster     // nil without a cluster
	moved    func()          // is told that the machine has another address
	full     <-chan struct{} // says that the disk is short of something; nil: nobody looks
	diary    *diary
	state    *statefile.Keeper
	capacity *capacity
	ports    *hostPorts
	sources  []string // their names

	podsDir string // holds a directory of data for each pod
	tree    *cgroup.Tree
}

// newNode makes the parts, in the order of the road. They stand still until start.
func newNode(ctx context.Context, c *config.Config, in surroundings, log *slog.Logger) (*node, error) {
	n := &node{features: in.features, ports: in.ports, statuses: status.NewStore(), diary: in.diary, state: in.state, moved: in.moved, log: log, group: run.NewGroup(ctx, log)}
	var err error
	if in.tree, err = cgroup.Open(); err != nil {
		return nil, err
	}
	if n.cgroups, err = cgroup.NewPods(cgroup.PodsConfig{Tree: in.tree, Owner: in.owner, All: allPods(c), Log: log}); err != nil {
		return nil, err
	}
	n.cgroups.LimitAll()
	if n.ips, err = newAddresses(c, log); err != nil {
		return nil, err
	}
	in.podsDir = filepath.Join(c.RootDir, "pods")
	records := newRecords(c, log)
	if err := n.makeLoop(c, in, records); err != nil {
		return nil, err
	}
	if err := n.findObjects(c, in); err != nil {
		return nil, err
	}
	executor, err := n.makeHands(c, in, records)
	if err != nil {
		return nil, err
	}
	n.pool, err = worker.New(n.group.Context(), worker.Config{
		Executor: executor, Observer: n.observer, Log: log, EnqueueAt: n.agent.EnqueueAt, PodGone: n.agent.PodGone,
		SyncStarted: in.watcher.SyncStarted, Restarted: in.watcher.Restarted,
	})
	if err != nil {
		return nil, err
	}
	n.measured, err = newMeasured(c, n, in, executor)
	return n, err
}

// makeLoop makes the agent, and those who tell it that a pod is worth a look.
func (n *node) makeLoop(c *config.Config, in surroundings, records *image.Records) error {
	dirs := orphan.Dirs{Owner: in.owner, Pods: in.podsDir, Links: c.LogLinksDir, Cgroups: n.cgroups}
	n.onDisk = func() (map[pod.UID]*pod.Observed, error) {
		if err := dirs.RemoveDeadLinks(); err != nil {
			return nil, err
		}
		return dirs.List()
	}
	debugs, err := ephemeral.Open(in.state.File(filepath.Join(c.RootDir, "debug.json"), "the containers that were added for debugging"), n.log)
	if err != nil {
		return err
	}
	n.probes, err = probe.New(probe.Config{
		Exec: in.client.Exec, Explain: cri.Reason, Expand: render.ExpandCommand, Events: in.diary.recorder, Log: n.log,
		HostIP: func() string { return n.ips.now()[0] }, StateFile: filepath.Join(c.RootDir, "probes.json"), ExecSlots: execProbes, OnCheck: in.watcher.Probed,
	})
	if err != nil {
		return err
	}
	n.agent, err = agent.New(agent.Config{
		Log: n.log, Node: in.capacity.admission, ReloadNode: in.capacity.reread, Sources: in.sources, Desired: in.wanted, EphemeralContainers: debugs, Statuses: n.statuses,
		Events: in.diary.recorder, Upstream: in.upstream, Metrics: in.watcher,
		InRuntime: in.features.list(func(ctx context.Context) error { return records.Settle(ctx, in.client.ImageRef) }), OnDisk: n.onDisk, Housekeeping: housekeepingEvery,
		Liveness: n.probes.Liveness, Readiness: n.probes.Readiness, Startup: n.probes.Startup,
	})
	if err != nil {
		return err
	}
	n.observer, err = observe.New(observe.Config{
		Runtime: in.client, Log: n.log, RelistInterval: auditEvery, PollInterval: listEvery, Enqueue: n.agent.Enqueue, Relisted: in.watcher.Relisted,
		PodRead: in.watcher.Metrics.PodRelisted,
	})
	return err
}

// findObjects makes what finds the objects that pods refer to.
func (n *node) findObjects(c *config.Config, in surroundings) error {
	var err error
	n.objects.Local, err = objects.NewLocal(objects.LocalConfig{
		Log: n.log, Enqueue: n.agent.Enqueue, State: in.state.FileForGood(filepath.Join(c.RootDir, "claims.json"), "which claim has which volume"),
		NodeName: c.NodeName, NodeLabels: in.capacity.labels,
	})
	if err == nil && in.clients != nil {
		n.objects.API, err = objects.NewAPI(objects.APIConfig{Client: in.clients.General, Log: n.log, Enqueue: n.agent.Enqueue})
	}
	return err
}

// start sets the parts in motion. snapshots is what the sources send.
func (n *node) start(snapshots <-chan pod.Snapshot) {
	n.group.Go("agent", func(ctx context.Context) { n.agent.Run(ctx, n.pool, snapshots) })
	n.group.Go("observer", n.onceUp(n.observer.Run))
	n.group.Go("probes", n.probes.Run)
	n.group.Go("host ports", func(ctx context.Context) { n.ports.run(ctx, n.agent) })
	n.group.Go("addresses", func(ctx context.Context) {
		n.ips.watch(ctx, func() {
			n.moved()
			n.pool.EnqueueAll()
		})
	})
	n.group.Go("plugins", n.plugins.Run)
	if n.csiNode != nil {
		n.group.Go("csi node", n.csiNode.Run)
	}
	n.diary.start()
}

// onceUp returns f for when the runtime has come up for the first time. Before that there is
// nothing to ask for, and no failure to tell of.
func (n *node) onceUp(f func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		select {
		case <-n.features.up:
			f(ctx)
		case <-ctx.Done():
		}
	}
}

// stopPatience is for how long a call to a runtime that hangs may hold up the end.
const stopPatience = 10 * time.Second

// stop ends the parts and leaves the pods as they are.
func (n *node) stop() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.group.Stop()
		n.pool.Stop()
		n.images.Stop()
		n.measured.stats.Stop()
		n.diary.stop()
	}()
	select {
	case <-done:
	case <-time.After(stopPatience):
		n.log.Warn("the runtime does not answer: ending without its answer")
	}
}

// runtimeIsBack makes everybody look again: nobody told of what happened meanwhile.
func (n *node) runtimeIsBack() {
	n.observer.Relist()
	n.pool.EnqueueAll()
}
