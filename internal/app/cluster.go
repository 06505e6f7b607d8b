package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/cluster/kubeclient"
	"berth/internal/cluster/mirror"
	machine "berth/internal/cluster/node"
	"berth/internal/cluster/upstream"
	"berth/internal/config"
	"berth/internal/core/status"
	"berth/internal/host/addresses"
	"berth/internal/intake/desired"
	"berth/internal/intake/objects"
	"berth/internal/intake/source"
	"berth/internal/lib/run"
	"berth/internal/runtime/cri"
)

// cluster holds the parts that a node has as a member of a cluster.
type cluster struct {
	log         *slog.Logger
	clients     *kubeclient.Clients
	credentials *credentials
	machine     machine.Host
	pressure    config.Pressure
	node        *machine.Reporter
	writer      *status.Writer
	mirrors     *mirror.Manager
	upstream    *upstream.Upstream
	pods        *source.API
	// registered holds a value if the API server has created the Node: the first one, or one
	// that takes the place of another. Mirror pods belong to their Node, and are made anew.
	registered chan struct{}
	// changed holds a value if the Node was changed by others: volumes may have been attached.
	changed chan struct{}
	// full gets a value if the disk has no room.
	full chan<- struct{}
	// ready is closed once the Node and the services of the cluster are known. Pods of the
	// cluster wait for it.
	ready chan struct{}
}

// statusWorkers is how many statuses are written at a time.
const statusWorkers = 4

// newCluster returns nil if member is nil: the node is in no cluster.
func newCluster(
	c *config.Config, member *membership, client *cri.Client, ips *addresses.Watcher, wanted *desired.Set, full chan<- struct{}, events machine.Events, written func(time.Duration), log *slog.Logger,
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
		Addresses: ips.Read,
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
	up, err := upstream.New(upstream.Config{Desired: wanted, Writer: writer, Mirrors: mirrors})
	if err != nil {
		return nil, err
	}
	return &cluster{
		log: log, machine: host, pressure: c.Pressure, clients: clients, credentials: member.credentials, node: node, writer: writer, mirrors: mirrors,
		upstream: up, pods: pods, registered: registered, changed: changed, full: full, ready: ready,
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
