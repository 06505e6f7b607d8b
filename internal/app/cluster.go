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
	"berth/internal/cluster/node"
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
	log      *slog.Logger
	clients  *kubeclient.Clients
	member   *membership
	host     node.Host
	pressure config.Pressure
	node     *node.Reporter
	writer   *status.Writer
	mirrors  *mirror.Manager
	upstream *upstream.Upstream
	pods     *source.API
	// registered holds a value if the API server has created the Node: the first one, or one that
	// replaces a deleted one. Mirror pods belong to their Node, and are made anew.
	registered chan struct{}
	// changed holds a value if other programs changed the Node: volumes may have been attached.
	changed chan struct{}
	// full receives a value if the disk has no room.
	full chan<- struct{}
	// ready is closed once the Node and the services of the cluster are known. Pods of the
	// cluster wait for it.
	ready chan struct{}
}

// statusWorkers is the number of statuses that are written at a time.
const statusWorkers = 4

// clusterConfig configures a cluster.
type clusterConfig struct {
	config  *config.Config
	member  *membership // nil: the node is in no cluster
	client  *cri.Client
	ips     *addresses.Watcher
	desired *desired.Set
	full    chan<- struct{} // receives a value if the disk has no room
	events  node.Events
	written func(time.Duration) // is called with the time that each status took to be written
	ready   func(time.Time)     // is called when the cluster has a Node that is ready
	log     *slog.Logger
}

// newCluster returns nil if the node is in no cluster.
func newCluster(in clusterConfig) (*cluster, error) {
	if in.member == nil {
		return nil, nil
	}
	c, log := in.config, in.log
	clients, host := in.member.clients, node.Host{Storage: c.RootDir}
	registered, changed, ready := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	pods, err := source.NewAPI(source.APIConfig{Client: clients.General, Node: c.NodeName, Log: log, Ready: ready})
	if err != nil {
		return nil, err
	}
	reporter, err := node.New(node.Config{
		Settings: nodeSettings(c),
		Client:   clients.Heartbeat, Watch: clients.General.CoreV1(), Events: in.events, Log: log,
		Machine:   host.Read,
		Addresses: in.ips.Read,
		Runtime:   func(ctx context.Context) (node.Runtime, error) { return runtimeFacts(ctx, in.client) },
		Registered: func(_ types.UID, again bool) {
			if again { // the server may have lost more than the Node
				pods.Relist()
			}
			run.Notify(registered)
		},
		Ready:     func() { in.ready(time.Now()) },
		Changed:   func() { run.Notify(changed) },
		Reconnect: clients.Reconnect, DontRegister: !c.Cluster.Register,
		Update: c.Cluster.StatusUpdate, Report: c.Cluster.StatusReport, Lease: c.Cluster.Lease,
	})
	if err != nil {
		return nil, err
	}
	writer, err := status.NewWriter(status.WriterConfig{Client: clients.General.CoreV1(), Log: log, Workers: statusWorkers, Synced: in.written})
	if err != nil {
		return nil, err
	}
	mirrors, err := mirror.New(mirror.Config{Client: clients.General.CoreV1(), Node: reporter.Node, Log: log})
	if err != nil {
		return nil, err
	}
	up, err := upstream.New(upstream.Config{Desired: in.desired, Writer: writer, Mirrors: mirrors})
	if err != nil {
		return nil, err
	}
	return &cluster{
		log: log, host: host, pressure: c.Pressure, clients: clients, member: in.member, node: reporter, writer: writer, mirrors: mirrors,
		upstream: up, pods: pods, registered: registered, changed: changed, full: in.full, ready: ready,
	}, nil
}

// runtimeFacts reads the facts of the container runtime that the Node shows.
func runtimeFacts(ctx context.Context, client *cri.Client) (node.Runtime, error) {
	v, err := client.Version(ctx)
	if err != nil {
		return node.Runtime{}, err
	}
	out := node.Runtime{Name: v.Name, Version: v.Version}
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

// start keeps the Node, the statuses and the mirror pods at the API server up to date.
func (u *cluster) start(group *run.Group, rt *containerRuntime, client *cri.Client, objects *objects.API, alive func(context.Context) error, fail func(error)) {
	u.member.start(group, fail)
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
	group.Go("runtime connection", func(ctx context.Context) { client.Changes(ctx, func() { run.Notify(rt.signals.hints) }) })
	group.Go("node readiness", u.readinessMonitor(client, alive, rt.signals.hints).Run)
	group.Go("node pressure", u.pressureMonitor(client).Run)
}

// readinessMonitor makes the monitor that sets the readiness of the Node by the health of the runtime
// and the sync loop.
func (u *cluster) readinessMonitor(client *cri.Client, alive func(context.Context) error, hints <-chan struct{}) node.ReadinessMonitor {
	return node.ReadinessMonitor{
		Status:     func(ctx context.Context) (node.RuntimeStatus, error) { return runtimeStatus(ctx, client) },
		Unanswered: func() []node.HungCall { return unanswered(client) }, Alive: alive,
		Recheck: hints, Node: u.node, Log: u.log,
	}
}

// runtimeStatus asks the runtime whether it and the network of pods are ready.
func runtimeStatus(ctx context.Context, client *cri.Client) (node.RuntimeStatus, error) {
	info, err := client.Info(ctx)
	return node.RuntimeStatus{Runtime: info.Runtime, Network: info.Network}, err
}

// unanswered returns the hung calls to the runtime that concern the whole node.
func unanswered(client *cri.Client) []node.HungCall {
	var out []node.HungCall
	for _, u := range client.Unanswered() {
		out = append(out, node.HungCall{Name: u.Method, Since: u.Since, Err: u.Err})
	}
	return out
}

// imageDirTimeout bounds the call that asks the runtime for the directory of its images.
const imageDirTimeout = 5 * time.Second

// pressureMonitor makes the monitor that sets the pressure conditions of the Node.
func (u *cluster) pressureMonitor(client *cri.Client) node.PressureMonitor {
	host := u.host
	return node.PressureMonitor{
		Thresholds: nodeLimits(u.pressure), TransitionPeriod: u.pressure.Relief, OnChange: u.node.SetPressure, Log: u.log,
		OnSample: func(p node.Pressure) {
			if p.Disk {
				run.Notify(u.full)
			}
		},
		Sample: func(ctx context.Context) (node.Available, error) {
			var err error
			if host.Images == "" {
				asking, cancel := context.WithTimeout(ctx, imageDirTimeout)
				host.Images, err = client.ImageDir(asking)
				cancel()
			}
			left, leftErr := host.Available()
			return left, errors.Join(err, leftErr)
		},
	}
}
