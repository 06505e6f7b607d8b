package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/config"
	"berth/internal/cri"
	"berth/internal/desired"
	"berth/internal/kubeapi"
	"berth/internal/mirror"
	machine "berth/internal/node"
	"berth/internal/pod"
	"berth/internal/run"
	"berth/internal/source"
	"berth/internal/status"
)

// cluster is the upstream of a node that has joined one.
type cluster struct {
	clients *kubeapi.Clients
	node    *machine.Reporter
	writer  *status.Writer
	mirrors *mirror.Manager
	wanted  *desired.Set
	pods    podSource
}

// statusWorkers is how many statuses are written at a time.
const statusWorkers = 4

func newCluster(c *config.Config, client *cri.Client, wanted *desired.Set, log *slog.Logger) (*cluster, error) {
	clients, err := kubeapi.New(kubeapi.Config{
		Kubeconfig: c.Cluster.Kubeconfig, UserAgent: kubeapi.UserAgent(version, machine.Kubernetes),
		QPS: float32(c.Cluster.QPS), Burst: c.Cluster.Burst,
	})
	if err != nil {
		return nil, err
	}
	u := &cluster{clients: clients, wanted: wanted}
	u.node, err = machine.New(machine.Config{
		Settings: machine.Settings{
			Name: c.NodeName, Version: version, Labels: c.Cluster.Labels, Taints: c.Cluster.Taints, MaxPods: int64(c.Cluster.MaxPods),
		},
		Client: clients.Heartbeat, Events: nodeEvents{log}, Log: log,
		Machine:   machine.Host{Storage: c.RootDir}.Read,
		Addresses: func() ([]string, error) { return hostIPs(c.NodeIP) },
		Runtime: func(ctx context.Context) (machine.Runtime, error) {
			v, err := client.Version(ctx)
			return machine.Runtime{Name: v.Name, Version: v.Version}, err
		},
		Reconnect: clients.Reconnect, DontRegister: !c.Cluster.Register,
		Update: c.Cluster.StatusUpdate, Report: c.Cluster.StatusReport, Lease: c.Cluster.Lease,
	})
	if err != nil {
		return nil, err
	}
	u.writer, err = status.NewWriter(status.WriterConfig{Client: clients.General.CoreV1(), Log: log, Workers: statusWorkers})
	if err != nil {
		return nil, err
	}
	u.mirrors, err = mirror.New(mirror.Config{Client: clients.General.CoreV1(), Node: u.node.Node, Log: log})
	if err != nil {
		return nil, err
	}
	u.pods, err = source.NewAPI(source.APIConfig{Client: clients.General, Node: c.NodeName, Log: log, Ready: u.node.Known()})
	return u, err
}

// start keeps the node, the statuses and the mirror pods of this machine true.
func (u *cluster) start(group *run.Group, client *cri.Client) {
	group.Go("node", u.node.Run)
	group.Go("status writer", u.writer.Run)
	group.Go("mirror pods", u.mirrors.Run)
	group.Go("node readiness", func(ctx context.Context) { u.watchRuntime(ctx, client) })
}

// askEvery is how often the runtime is asked how it is.
const askEvery = 5 * time.Second

// watchRuntime lets the node be as ready as its runtime is.
func (u *cluster) watchRuntime(ctx context.Context, client *cri.Client) {
	for {
		err := client.Ready(ctx)
		if errors.Is(err, cri.ErrNotReady) { // it answers, and has no network yet
			u.node.SetRuntime(nil)
			u.node.SetNetwork(err)
		} else {
			u.node.SetRuntime(err)
			u.node.SetNetwork(err)
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return
		}
	}
}

// Publish writes the status of a pod to the API server, that of a static pod to
// its mirror.
func (u *cluster) Publish(p *v1.Pod, s v1.PodStatus) {
	there, ok := u.wanted.Get(p.UID)
	if ok && pod.IsStatic(p) {
		there, ok = u.wanted.MirrorOf(p)
	}
	if ok {
		u.writer.Write(there, s)
	}
}

// Release takes a pod that was deleted, and of which nothing is left here, off the
// API server.
func (u *cluster) Release(p *v1.Pod) {
	if !pod.IsStatic(p) {
		u.writer.Delete(p)
	}
}

// Mirror shows a static pod at the API server.
func (u *cluster) Mirror(p *v1.Pod) {
	there, _ := u.wanted.MirrorOf(p)
	u.mirrors.Ensure(p, there)
}

// Unmirror takes a mirror pod away whose static pod is gone.
func (u *cluster) Unmirror(mirrorPod *v1.Pod) { u.mirrors.Delete(mirrorPod) }

// Forget drops what is known of a pod that is gone from the API server.
func (u *cluster) Forget(uid pod.UID) { u.writer.Forget(uid) }

// nodeEvents tells what happens to the node to whoever reads the log.
type nodeEvents struct{ log *slog.Logger }

func (e nodeEvents) RecordNode(kind, reason, message string) {
	e.log.Info("node event", "type", kind, "reason", reason, "message", message)
}
