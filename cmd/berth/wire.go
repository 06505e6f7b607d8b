package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"berth/internal/agent"
	"berth/internal/cgroup"
	"berth/internal/config"
	"berth/internal/cri"
	"berth/internal/crilog"
	"berth/internal/csi"
	"berth/internal/desired"
	"berth/internal/ephemeral"
	"berth/internal/execute"
	"berth/internal/gc"
	"berth/internal/hook"
	"berth/internal/image"
	"berth/internal/imagegc"
	"berth/internal/kubeapi"
	"berth/internal/measure"
	"berth/internal/observe"
	"berth/internal/plugins"
	"berth/internal/pod"
	"berth/internal/probe"
	"berth/internal/refs"
	"berth/internal/render"
	"berth/internal/run"
	"berth/internal/status"
	"berth/internal/userns"
	"berth/internal/volume"
	"berth/internal/worker"
)

// This file is the only place that knows all parts of the road. It makes them
// and puts them together.

const (
	auditEvery        = time.Minute
	listEvery         = time.Second // of a runtime without events
	housekeepingEvery = time.Minute

	execProbes = 8 // at a time: each is a process in a container
)

// node is the road of a pod on one runtime.
type node struct {
	agent    *agent.Agent
	statuses *status.Store
	images   *image.Manager
	imageGC  *imagegc.Collector
	observer *observe.Observer
	pool     *worker.Pool
	probes   *probe.Manager
	objects  refs.Both
	volumes  *volume.Manager
	plugins  *plugins.Watcher
	csiNode  *csi.Reporter // nil without a cluster
	cgroups  *cgroup.Pods
	onDisk   func() (map[pod.UID]*pod.Observed, error) // the pods that left something there
	diary    *diary
	measured *measured
	group    *run.Group
	log      *slog.Logger
}

// surroundings is what the road of a pod leads through.
type surroundings struct {
	client   *cri.Client
	watcher  *measure.Watcher
	clients  *kubeapi.Clients // nil without a cluster
	wanted   *desired.Set
	upstream upstream
	diary    *diary
	capacity *capacity
	sources  []string // their names

	ips     []string // of this node
	podsDir string   // holds a directory of data for each pod
	tree    *cgroup.Tree
}

// newNode makes the parts, in the order of the road. They stand still until start.
func newNode(ctx context.Context, c *config.Config, in surroundings, log *slog.Logger) (*node, error) {
	n := &node{statuses: status.NewStore(), diary: in.diary, log: log, group: run.NewGroup(ctx, log)}
	var err error
	if in.tree, err = cgroup.Open(); err != nil {
		return nil, err
	}
	if n.cgroups, err = cgroup.NewPods(cgroup.PodsConfig{Tree: in.tree, Root: c.CgroupRoot, Log: log}); err != nil {
		return nil, err
	}
	if in.ips, err = hostIPs(c.NodeIP); err != nil {
		return nil, err
	}
	in.podsDir = filepath.Join(c.RootDir, "pods")
	if err := n.makeLoop(ctx, c, in); err != nil {
		return nil, err
	}
	if err := n.findObjects(c, in); err != nil {
		return nil, err
	}
	executor, err := n.makeHands(ctx, c, in)
	if err != nil {
		return nil, err
	}
	n.pool, err = worker.New(n.group.Context(), worker.Config{
		Hands: executor, Observer: n.observer, Log: log, Later: n.agent.Later, Gone: n.agent.Gone,
		Turn: in.watcher.Turn, Restarted: in.watcher.Restarted,
	})
	if err != nil {
		return nil, err
	}
	n.measured, err = newMeasured(c, n, in, executor)
	return n, err
}

// makeLoop makes the agent, and those who tell it that a pod is worth a look.
func (n *node) makeLoop(ctx context.Context, c *config.Config, in surroundings) error {
	running, err := in.client.List(ctx)
	if err != nil {
		return err
	}
	dirs := gc.Dirs{Pods: in.podsDir, Logs: c.PodLogsDir, Links: c.LogLinksDir, Cgroups: n.cgroups.List}
	n.onDisk = func() (map[pod.UID]*pod.Observed, error) {
		if err := dirs.RemoveDeadLinks(); err != nil {
			return nil, err
		}
		return dirs.List()
	}
	debugs, err := ephemeral.Open(filepath.Join(c.RootDir, "debug.json"), n.log)
	if err != nil {
		return err
	}
	n.probes, err = probe.New(probe.Config{
		Exec: in.client.Exec, Explain: cri.Reason, Expand: render.ExpandCommand, Events: in.diary.recorder, Log: n.log,
		HostIP: in.ips[0], StateFile: filepath.Join(c.RootDir, "probes.json"), ExecSlots: execProbes, Observe: in.watcher.Probed,
	})
	if err != nil {
		return err
	}
	n.agent, err = agent.New(agent.Config{
		Log: n.log, Node: in.capacity.admission, Sources: in.sources, Desired: in.wanted, Debugs: debugs, Statuses: n.statuses,
		Events: in.diary.recorder, Upstream: in.upstream, Counter: in.watcher,
		InRuntime: in.client.List, OnDisk: n.onDisk, Running: running, Housekeeping: housekeepingEvery,
		Liveness: n.probes.Liveness, Readiness: n.probes.Readiness, Startup: n.probes.Startup,
	})
	if err != nil {
		return err
	}
	n.observer, err = observe.New(observe.Config{
		Runtime: in.client, Log: n.log, Audit: auditEvery, Fallback: listEvery, Changed: n.agent.Changed, Relisted: in.watcher.Relisted,
	})
	return err
}

// findObjects makes what finds the objects that pods refer to.
func (n *node) findObjects(c *config.Config, in surroundings) error {
	var err error
	n.objects.Local, err = refs.NewLocal(refs.LocalConfig{
		Log: n.log, Changed: n.agent.Changed, State: filepath.Join(c.RootDir, "claims.json"),
		NodeName: c.NodeName, NodeLabels: in.capacity.labels,
	})
	if err == nil && in.clients != nil {
		n.objects.API, err = refs.NewAPI(refs.APIConfig{Client: in.clients.General, Log: n.log, Changed: n.agent.Changed})
	}
	return err
}

// makeHands makes what does the work of each pod.
func (n *node) makeHands(ctx context.Context, c *config.Config, in surroundings) (*execute.Executor, error) {
	info, err := in.client.Info(ctx)
	if err != nil {
		return nil, err
	}
	name, err := in.client.Version(ctx)
	if err != nil {
		return nil, err
	}
	shown, err := n.renderNode(c, in)
	if err != nil {
		return nil, err
	}
	if err := n.makeImages(ctx, c, in); err != nil {
		return nil, err
	}
	if err := n.makeVolumes(c, in, info.Handlers); err != nil {
		return nil, err
	}
	hooks, err := hook.New(hook.Config{Exec: in.client.Exec, Explain: cri.Reason, Log: n.log})
	if err != nil {
		return nil, err
	}
	users, err := userns.New(userns.Config{PodsDir: in.podsDir, Count: c.IDsPerPod, Log: n.log})
	if err != nil {
		return nil, err
	}
	return execute.New(execute.Config{
		Runtime: in.client, Images: n.images, Hooks: hooks, Probes: n.probes, Objects: n.objects, Volumes: n.volumes, Users: users,
		Events: in.diary.recorder, Upstream: in.upstream, Statuses: n.statuses, Watcher: in.watcher,
		Slots: execute.NewSlots(c.StartSlots), Log: n.log,
		Node:        shown,
		HostIPs:     in.ips,
		PodsDir:     in.podsDir,
		LinksDir:    c.LogLinksDir,
		RuntimeName: name.Name,
		LastLines:   crilog.LastLines,
		Backoff:     c.Backoff,
		Allocatable: in.capacity.forPods,
		CanMapUsers: func(handler string) bool { return canMapUsers(info.Handlers, handler) },
		ImageUser:   imageUsers(in.client),
		MakeCgroup: func(g render.Cgroup) error {
			defer in.watcher.Cgroup("create")()
			return n.cgroups.Make(g)
		},
		RemoveCgroup: func(ctx context.Context, path string) error {
			defer in.watcher.Cgroup("destroy")()
			return n.cgroups.Remove(ctx, path)
		},
		Mounted: gc.Mounted,
		Explain: cri.Reason,
		Forget:  n.observer.Forget,
	})
}

// makeVolumes makes what brings volumes to pods, by itself or with the drivers of this
// machine.
func (n *node) makeVolumes(c *config.Config, in surroundings, handlers []cri.Handler) error {
	drivers, err := csi.New(csi.Config{
		PodsDir: in.podsDir, PluginsDir: filepath.Join(c.RootDir, "plugins"), NodeName: c.NodeName, Objects: n.objects,
		IsMount: volume.Kernel{}.IsMount, Wake: n.agent.Changed, Log: n.log,
	})
	if err != nil {
		return err
	}
	n.plugins, err = plugins.New(plugins.Config{
		Dir: filepath.Join(c.RootDir, "plugins_registry"), Handlers: map[string]plugins.Handler{registration.CSIPlugin: drivers}, Log: n.log,
	})
	if err != nil {
		return err
	}
	if in.clients != nil {
		n.csiNode, err = csi.NewReporter(csi.ReporterConfig{Manager: drivers, Client: in.clients.General, Node: in.capacity.inCluster, Log: n.log})
		if err != nil {
			return err
		}
	}
	n.volumes, err = volume.New(volume.Config{
		PodsDir: in.podsDir, Objects: n.objects, Mounter: volume.Kernel{}, CSI: drivers, Image: n.imageOfVolume, NodeName: c.NodeName,
		NodeLabels: in.capacity.labels, Allocatable: in.capacity.forPods, HostIPs: func() []string { return in.ips },
		RecursiveReadOnly: func(p *v1.Pod) bool { return readOnlyBelow(p, handlers) }, Log: n.log,
	})
	return err
}

// imageOfVolume has the image of a volume pulled like that of a container. No container
// has such a name.
func (n *node) imageOfVolume(ctx context.Context, p *v1.Pod, name string, s *v1.ImageVolumeSource) (string, time.Time, error) {
	state := n.images.Ensure(ctx, p, &v1.Container{Name: "volume/" + name, Image: s.Reference, ImagePullPolicy: s.PullPolicy})
	if state.Ref == "" {
		return "", state.Until, fmt.Errorf("%s: %s", state.Reason, state.Message)
	}
	return state.Ref, time.Time{}, nil
}

// renderNode is what pods take over from this machine.
func (n *node) renderNode(c *config.Config, in surroundings) (render.Node, error) {
	dns, err := machineDNS(c.ResolvConf)
	return render.Node{
		Name: c.NodeName, LogsDir: c.PodLogsDir,
		DNS: dns, InCluster: in.clients != nil, ClusterDNS: c.ClusterDNS, ClusterDomain: c.ClusterDomain,
		SeccompDir: filepath.Join(c.RootDir, "seccomp"), SeccompDefault: c.SeccompDefault,
		NoCPUQuota: c.NoCPUQuota, CPUPeriod: c.CPUPeriod, PodPids: c.PodPIDs,
		CgroupRoot: c.CgroupRoot, CgroupV2: in.tree.V2(), Memory: in.capacity.memory,
	}, err
}

// readOnlyBelow tells whether what is mounted below a read-only mount can be
// read-only, too. Of a class, only what all handlers can do is known before its pod
// is run.
func readOnlyBelow(p *v1.Pod, handlers []cri.Handler) bool {
	class := p.Spec.RuntimeClassName
	all := len(handlers) > 0
	for _, h := range handlers {
		if h.Name == "" && (class == nil || *class == "") {
			return h.RecursiveReadOnlyMounts
		}
		all = all && h.RecursiveReadOnlyMounts
	}
	return all
}

// start sets the parts in motion. snapshots is what the sources send.
func (n *node) start(snapshots <-chan pod.Snapshot) {
	n.group.Go("agent", func(ctx context.Context) { n.agent.Run(ctx, n.pool, snapshots) })
	n.group.Go("observer", n.observer.Run)
	n.group.Go("probes", n.probes.Run)
	n.group.Go("plugins", n.plugins.Run)
	if n.csiNode != nil {
		n.group.Go("csi node", n.csiNode.Run)
	}
	n.diary.start()
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
	n.pool.LookAtAll()
}
