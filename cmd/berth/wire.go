package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/agent"
	"berth/internal/cgroup"
	"berth/internal/config"
	"berth/internal/cri"
	"berth/internal/crilog"
	"berth/internal/desired"
	"berth/internal/execute"
	"berth/internal/gc"
	"berth/internal/hook"
	"berth/internal/image"
	"berth/internal/kubeapi"
	"berth/internal/observe"
	"berth/internal/pod"
	"berth/internal/probe"
	"berth/internal/refs"
	"berth/internal/render"
	"berth/internal/run"
	"berth/internal/status"
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
	observer *observe.Observer
	pool     *worker.Pool
	probes   *probe.Manager
	onDisk   func() (map[pod.UID]*pod.Observed, error) // the pods that left something there
	objects  refs.Both
	diary    *diary
	group    *run.Group
	log      *slog.Logger
}

// surroundings is what the road of a pod leads through.
type surroundings struct {
	client   *cri.Client
	clients  *kubeapi.Clients // nil without a cluster
	wanted   *desired.Set
	upstream upstream
	diary    *diary
	capacity *capacity
	sources  []string // their names
}

// newNode makes the parts. They stand still until start.
func newNode(ctx context.Context, c *config.Config, in surroundings, log *slog.Logger) (*node, error) {
	n := &node{statuses: status.NewStore(), diary: in.diary, log: log, group: run.NewGroup(ctx, log)}
	client := in.client
	running, err := client.List(ctx)
	if err != nil {
		return nil, err
	}
	v, err := client.Version(ctx)
	if err != nil {
		return nil, err
	}
	cgroups, err := cgroup.Open()
	if err != nil {
		return nil, err
	}
	podsDir := filepath.Join(c.RootDir, "pods")
	dirs := gc.Dirs{
		Pods: podsDir, Logs: c.PodLogsDir, Links: c.LogLinksDir,
		Cgroups: func() ([]string, error) { return cgroups.Children(c.CgroupRoot) },
	}
	n.onDisk = func() (map[pod.UID]*pod.Observed, error) {
		if err := dirs.RemoveDeadLinks(); err != nil {
			return nil, err
		}
		return dirs.List()
	}
	ips, err := hostIPs(c.NodeIP)
	if err != nil {
		return nil, err
	}
	n.probes, err = probe.New(probe.Config{
		Exec: client.Exec, Explain: cri.Reason, Expand: render.ExpandCommand, Events: in.diary.recorder, Log: log,
		HostIP: ips[0], StateFile: filepath.Join(c.RootDir, "probes.json"), ExecSlots: execProbes,
	})
	if err != nil {
		return nil, err
	}
	n.agent, err = agent.New(agent.Config{
		Log: log, Node: in.capacity.admission, Sources: in.sources, Desired: in.wanted, Statuses: n.statuses, Events: in.diary.recorder,
		Upstream:  in.upstream,
		InRuntime: client.List, OnDisk: n.onDisk,
		Running: running, Housekeeping: housekeepingEvery,
		Liveness: n.probes.Liveness, Readiness: n.probes.Readiness, Startup: n.probes.Startup,
	})
	if err != nil {
		return nil, err
	}
	n.observer, err = observe.New(observe.Config{
		Runtime: client, Log: log, Audit: auditEvery, Fallback: listEvery, Changed: n.agent.Changed,
	})
	if err != nil {
		return nil, err
	}
	n.images, err = image.New(n.group.Context(), image.Config{
		Runtime: client, Log: log, Parallel: c.ParallelPulls, Wake: n.agent.Changed, Explain: cri.Reason,
	})
	if err != nil {
		return nil, err
	}
	if err := n.findObjects(in.clients); err != nil {
		return nil, err
	}
	executor, err := newExecutor(ctx, c, in, n, cgroups, podsDir, v.Name, ips, log)
	if err != nil {
		return nil, err
	}
	n.pool, err = worker.New(n.group.Context(), worker.Config{
		Hands: executor, Observer: n.observer, Log: log, Later: n.agent.Later, Gone: n.agent.Gone,
	})
	return n, err
}

// findObjects makes what finds the objects that pods refer to.
func (n *node) findObjects(clients *kubeapi.Clients) error {
	var err error
	n.objects.Local, err = refs.NewLocal(refs.LocalConfig{Log: n.log, Changed: n.agent.Changed})
	if err == nil && clients != nil {
		n.objects.API, err = refs.NewAPI(refs.APIConfig{Client: clients.General, Log: n.log, Changed: n.agent.Changed})
	}
	return err
}

func newExecutor(
	ctx context.Context, c *config.Config, in surroundings, n *node, cgroups *cgroup.Tree, podsDir, runtimeName string, ips []string,
	log *slog.Logger,
) (*execute.Executor, error) {
	dns, err := machineDNS("/etc/resolv.conf")
	if err != nil {
		return nil, err
	}
	info, err := in.client.Info(ctx)
	if err != nil {
		return nil, err
	}
	volumes, err := volume.New(volume.Config{
		PodsDir: podsDir, Objects: n.objects, Mounter: volume.Kernel{}, NodeName: c.NodeName,
		NodeLabels: in.capacity.labels, Allocatable: in.capacity.forPods, HostIPs: func() []string { return ips },
		RecursiveReadOnly: func(p *v1.Pod) bool { return readOnlyBelow(p, info.Handlers) }, Log: log,
	})
	if err != nil {
		return nil, err
	}
	hooks, err := hook.New(hook.Config{Exec: in.client.Exec, Explain: cri.Reason, Log: log})
	if err != nil {
		return nil, err
	}
	return execute.New(execute.Config{
		Runtime: in.client, Images: n.images, Hooks: hooks, Probes: n.probes, Objects: n.objects, Volumes: volumes,
		Events: in.diary.recorder, Upstream: in.upstream, Statuses: n.statuses,
		Slots: execute.NewSlots(c.StartSlots), Log: log,
		Node:         render.Node{Name: c.NodeName, LogsDir: c.PodLogsDir, CgroupRoot: c.CgroupRoot, DNS: dns},
		HostIPs:      ips,
		PodsDir:      podsDir,
		LinksDir:     c.LogLinksDir,
		RuntimeName:  runtimeName,
		LastLines:    crilog.LastLines,
		Backoff:      c.Backoff,
		Allocatable:  in.capacity.forPods,
		RemoveCgroup: cgroups.Remove,
		Mounted:      gc.Mounted,
		Explain:      cri.Reason,
		Forget:       n.observer.Forget,
	})
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
