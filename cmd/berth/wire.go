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
	"berth/internal/event"
	"berth/internal/execute"
	"berth/internal/gc"
	"berth/internal/hook"
	"berth/internal/image"
	"berth/internal/observe"
	"berth/internal/pod"
	"berth/internal/render"
	"berth/internal/run"
	"berth/internal/status"
	"berth/internal/worker"
)

// This file is the only place that knows all parts of the road. It makes them
// and puts them together.

const (
	auditEvery        = time.Minute
	listEvery         = time.Second // of a runtime without events
	housekeepingEvery = time.Minute
)

// node is the road of a pod on one runtime.
type node struct {
	agent    *agent.Agent
	statuses *status.Store
	images   *image.Manager
	observer *observe.Observer
	pool     *worker.Pool
	onDisk   func() (map[pod.UID]*pod.Observed, error) // the pods that left something there
	events   *event.Store
	recorder *event.Recorder
	group    *run.Group
	last     *run.Group // what takes note of the end of all others
	log      *slog.Logger
}

// newNode makes the parts. They stand still until start.
func newNode(
	ctx context.Context, c *config.Config, client *cri.Client, wanted *desired.Set, up upstream, sources []string, log *slog.Logger,
) (*node, error) {
	n := &node{
		statuses: status.NewStore(), log: log,
		group: run.NewGroup(ctx, log), last: run.NewGroup(context.WithoutCancel(ctx), log),
	}
	running, err := client.List(ctx)
	if err != nil {
		return nil, err
	}
	v, err := client.Version(ctx)
	if err != nil {
		return nil, err
	}
	n.events, err = event.OpenStore(event.StoreConfig{Path: filepath.Join(c.RootDir, "events.jsonl"), Log: log})
	if err != nil {
		return nil, err
	}
	n.recorder, err = event.New(event.Config{Node: c.NodeName, Store: n.events, Log: log})
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
	n.agent, err = agent.New(agent.Config{
		Log: log, Sources: sources, Desired: wanted, Statuses: n.statuses, Events: n.recorder,
		Upstream:  up,
		InRuntime: client.List, OnDisk: n.onDisk,
		Running: running, Housekeeping: housekeepingEvery,
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
	executor, err := newExecutor(c, client, cgroups, n, up, podsDir, v.Name, log)
	if err != nil {
		return nil, err
	}
	n.pool, err = worker.New(n.group.Context(), worker.Config{
		Hands: executor, Observer: n.observer, Log: log, Later: n.agent.Later, Gone: n.agent.Gone,
	})
	return n, err
}

func newExecutor(
	c *config.Config, client *cri.Client, cgroups *cgroup.Tree, n *node, up upstream, podsDir, runtimeName string, log *slog.Logger,
) (*execute.Executor, error) {
	dns, err := machineDNS("/etc/resolv.conf")
	if err != nil {
		return nil, err
	}
	ips, err := hostIPs(c.NodeIP)
	if err != nil {
		return nil, err
	}
	hooks, err := hook.New(hook.Config{Exec: client.Exec, Explain: cri.Reason, Log: log})
	if err != nil {
		return nil, err
	}
	return execute.New(execute.Config{
		Runtime: client, Images: n.images, Hooks: hooks, Probes: unprobed{}, Events: n.recorder, Upstream: up, Statuses: n.statuses,
		Slots: execute.NewSlots(c.StartSlots), Log: log,
		Node:         render.Node{Name: c.NodeName, LogsDir: c.PodLogsDir, CgroupRoot: c.CgroupRoot, DNS: dns},
		HostIPs:      ips,
		PodsDir:      podsDir,
		LinksDir:     c.LogLinksDir,
		RuntimeName:  runtimeName,
		LastLines:    crilog.LastLines,
		Backoff:      c.Backoff,
		RemoveCgroup: cgroups.Remove,
		Mounted:      gc.Mounted,
		Explain:      cri.Reason,
		Forget:       n.observer.Forget,
	})
}

// start sets the parts in motion. snapshots is what the sources send.
func (n *node) start(snapshots <-chan pod.Snapshot) {
	n.group.Go("agent", func(ctx context.Context) { n.agent.Run(ctx, n.pool, snapshots) })
	n.group.Go("observer", n.observer.Run)
	n.last.Go("events", n.recorder.Run)
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
		n.last.Stop()
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

// unprobed stands in until probes are built.
type unprobed struct{}

func (unprobed) Watch(*v1.Pod, pod.Observed) {}
func (unprobed) Health(string) pod.Health    { return pod.Health{} }
func (unprobed) Stop(pod.UID)                {}
func (unprobed) Forget(pod.UID)              {}
