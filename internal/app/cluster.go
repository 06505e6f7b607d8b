package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/cluster/kubeclient"
	"berth/internal/cluster/mirror"
	machine "berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/core/status"
	"berth/internal/intake/desired"
	"berth/internal/intake/objects"
	"berth/internal/intake/source"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/runtime/cri"
)

// cluster is the upstream of a node that has joined one.
type cluster struct {
	log         *slog.Logger
	clients     *kubeclient.Clients
	credentials *credentials
	machine     machine.Host
	pressure    config.Pressure
	node        *machine.Reporter
	writer      *status.Writer
	mirrors     *mirror.Manager
	wanted      *desired.Set
	pods        *source.API
	// writing keeps what the writer is told in the order of what is wanted: a pod that
	// it was told to forget does not come back, and no version comes after a newer one.
	writing sync.Mutex
	// registered says that the cluster has a Node of ours, and again when it is
	// another one: whatever belongs to it has to be made anew.
	registered chan struct{}
	// changed says that somebody has changed our Node: more may be attached to it.
	changed chan struct{}
	// full says that the disk is short of something.
	full chan<- struct{}
	// ready is closed once the Node and the services of the cluster are known. No pod
	// is acted on before.
	ready chan struct{}
}

// statusWorkers is how many statuses are written at a time.
const statusWorkers = 4

// newCluster returns nil if member is nil: the node is in no cluster.
func newCluster(
	c *config.Config, member *membership, client *cri.Client, wanted *desired.Set, full chan<- struct{}, events machine.Events, written func(time.Duration), log *slog.Logger,
) (*cluster, error) {
	if member == nil {
		return nil, nil
	}
	clients, host := member.clients, machine.Host{Storage: c.RootDir}
	registered, changed, ready := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	pods, err := source.NewAPI(source.APIConfig{Client: clients.General, Node: c.NodeName, Log: log, Ready: ready})
	if err != nil {
		return nil, err
	}
	node, err := machine.New(machine.Config{
		Settings: nodeSettings(c),
		Client:   clients.Heartbeat, Watch: clients.General.CoreV1(), Events: events, Log: log,
		Machine:   host.Read,
		Addresses: func() ([]string, error) { return hostIPs(c) },
		Runtime:   func(ctx context.Context) (machine.Runtime, error) { return runtimeFacts(ctx, client) },
		Registered: func(_ types.UID, again bool) {
			if again { // the server may have lost more than the Node
				pods.Relist()
			}
			notify(registered)
		},
		Changed:   func() { notify(changed) },
		Reconnect: clients.Reconnect, DontRegister: !c.Cluster.Register,
		Update: c.Cluster.StatusUpdate, Report: c.Cluster.StatusReport, Lease: c.Cluster.Lease,
	})
	if err != nil {
		return nil, err
	}
	writer, err := status.NewWriter(status.WriterConfig{Client: clients.General.CoreV1(), Log: log, Workers: statusWorkers, Synced: written})
	if err != nil {
		return nil, err
	}
	mirrors, err := mirror.New(mirror.Config{Client: clients.General.CoreV1(), Node: node.Node, Log: log})
	if err != nil {
		return nil, err
	}
	return &cluster{
		log: log, machine: host, pressure: c.Pressure, clients: clients, credentials: member.credentials, node: node, writer: writer, mirrors: mirrors,
		wanted: wanted, pods: pods, registered: registered, changed: changed, full: full, ready: ready,
	}, nil
}

// runtimeFacts is what a Node says of its container runtime.
func runtimeFacts(ctx context.Context, client *cri.Client) (machine.Runtime, error) {
	v, err := client.Version(ctx)
	if err != nil {
		return machine.Runtime{}, err
	}
	out := machine.Runtime{Name: v.Name, Version: v.Version}
	info, err := client.Info(ctx)
	if err != nil {
		return out, err
	}
	out.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &info.SupplementalGroups}
	for _, h := range info.Handlers {
		out.Handlers = append(out.Handlers, v1.NodeRuntimeHandler{Name: h.Name, Features: &v1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: &h.RecursiveReadOnlyMounts, UserNamespaces: &h.UserNamespaces,
		}})
	}
	images, err := client.Images(ctx)
	if err != nil {
		return out, err
	}
	for _, i := range images {
		out.Images = append(out.Images, v1.ContainerImage{Names: slices.Concat(i.Digests, i.Tags), SizeBytes: i.Size})
	}
	return out, nil
}

// start keeps the node, the statuses and the mirror pods of this machine true.
func (u *cluster) start(group *run.Group, rt *containerRuntime, client *cri.Client, objects *objects.API, alive func(context.Context) error, fail func(error)) {
	u.credentials.start(group, u.clients, fail)
	group.Go("objects", objects.Run)
	group.Go("node and services", func(ctx context.Context) {
		for _, known := range []<-chan struct{}{u.node.Synced(), objects.Synced()} {
			select {
			case <-known:
			case <-ctx.Done():
				return
			}
		}
		close(u.ready)
	})
	group.Go("node", u.node.Run)
	group.Go("status writer", u.writer.Run)
	group.Go("mirror pods", u.mirrors.Run)
	group.Go("runtime connection", func(ctx context.Context) { client.Changes(ctx, func() { notify(rt.signals.hints) }) })
	group.Go("node readiness", u.readiness(client, alive, rt.signals.hints).Run)
	group.Go("node pressure", u.gauge(client).Run)
}

// readiness lets the node be as ready as its runtime and the sync loop are.
func (u *cluster) readiness(client *cri.Client, alive func(context.Context) error, hints <-chan struct{}) machine.ReadinessMonitor {
	return machine.ReadinessMonitor{
		Status: func(ctx context.Context) (machine.RuntimeStatus, error) {
			info, err := client.Info(ctx)
			return machine.RuntimeStatus{Runtime: info.Runtime, Network: info.Network}, err
		},
		Unanswered: func() []machine.HungCall { return unanswered(client) }, Alive: alive,
		Recheck: hints, Node: u.node, Log: u.log,
	}
}

// unanswered are the calls that the runtime leaves without an answer, as far as they concern
// the whole node.
func unanswered(client *cri.Client) []machine.HungCall {
	var out []machine.HungCall
	for _, u := range client.Unanswered() {
		out = append(out, machine.HungCall{Name: u.Method, Since: u.Since, Err: u.Err})
	}
	return out
}

// gauge lets the node show what the machine runs out of.
func (u *cluster) gauge(client *cri.Client) machine.PressureMonitor {
	host := u.machine
	return machine.PressureMonitor{
		Thresholds: nodeLimits(u.pressure), TransitionPeriod: u.pressure.Relief, OnChange: u.node.SetPressure, Log: u.log,
		OnSample: func(p machine.Pressure) {
			if p.Disk {
				notify(u.full)
			}
		},
		Sample: func(ctx context.Context) (machine.Available, error) {
			var err error
			if host.Images == "" {
				asking, cancel := context.WithTimeout(ctx, askTimeout)
				host.Images, err = imageDir(asking, client)
				cancel()
			}
			left, leftErr := host.Available()
			return left, errors.Join(err, leftErr)
		},
	}
}

// Publish writes the status of a pod to the API server, that of a static pod to
// its mirror.
func (u *cluster) Publish(p *v1.Pod, s v1.PodStatus) {
	u.writing.Lock()
	defer u.writing.Unlock()
	there, ok := u.wanted.Get(p.UID)
	if ok && pod.IsStatic(p) {
		there, ok = u.wanted.MirrorOf(p)
	}
	if ok {
		u.writer.Write(there, s)
	}
}

// Release takes a pod that was deleted, and of which nothing is left here, off the
// API server. One that was deleted by force is not there any more.
func (u *cluster) Release(p *v1.Pod) {
	u.writing.Lock()
	defer u.writing.Unlock()
	if _, there := u.wanted.Get(p.UID); there && !pod.IsStatic(p) {
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

// Forget drops what is known of a pod that is gone from the API server, and no longer
// wanted.
func (u *cluster) Forget(uid pod.UID) {
	u.writing.Lock()
	defer u.writing.Unlock()
	u.writer.Forget(uid)
}
