package app

import (
	"context"
	"log/slog"
	"path/filepath"

	"berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/core"
	"berth/internal/core/hostports"
	"berth/internal/host/addresses"
	"berth/internal/host/roots"
	"berth/internal/intake/desired"
	"berth/internal/pods/cgroup"
	"berth/internal/pods/cgroup/systemd"
	"berth/internal/runtime/bundle"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/features"
	"berth/internal/runtime/image"
	"berth/internal/telemetry/measure"
	"berth/internal/telemetry/oom"
)

// deps are the parts that are finished before the sync loop is made of them. None of them calls the
// runtime while it is made: the runtime may not be up yet, or hang.
type deps struct {
	config    *config.Config
	owner     roots.Owner
	client    *cri.Client
	up        <-chan struct{} // closed once the runtime came up for the first time
	features  *features.Features
	bundle    *bundle.Runtime // nil for a runtime that berth does not manage
	records   *image.Records
	telemetry *measure.Recorder
	events    *eventRecorder
	victims   *oom.Victims
	state     *agentState
	desired   *desired.Set
	cluster   *cluster // nil without a cluster
	upstream  core.Upstream
	capacity  *capacity
	ports     *hostports.Recorder
	ips       *addresses.Watcher
	tree      *cgroup.Tree
	driver    *cgroup.RuntimeDriver
	cgroups   *cgroup.Pods
	fail      func(error) // ends the agent with an error; nil: errors do not end it
	podsDir   string      // holds a directory of data for each pod
	log       *slog.Logger
}

// depsConfig holds the parts that Run and Down make first: the configuration, the runtime, and the
// membership in a cluster.
type depsConfig struct {
	config    *config.Config
	runtime   *containerRuntime
	client    *cri.Client
	member    *membership // nil if the node is in no cluster
	state     *agentState
	telemetry *measure.Recorder
	fail      func(error) // ends the agent with an error; nil: errors do not end it
	log       *slog.Logger
}

// newDeps makes the parts below the sync loop.
func newDeps(ctx context.Context, in depsConfig) (*deps, error) {
	c, rt, log := in.config, in.runtime, in.log
	known := features.New(in.client, rt.signals.cameUp, log)
	registry, err := newRegistry()
	if err != nil {
		return nil, err
	}
	ports, err := hostports.New(hostports.Config{Registry: registry, Owner: rt.owner, Log: log})
	if err != nil {
		return nil, err
	}
	events, err := newEventRecorder(ctx, c, in.member, in.state.Keeper, log)
	if err != nil {
		return nil, err
	}
	ips, err := addresses.New(addresses.Config{NodeIPs: c.NodeIPs, PodCIDR: c.PodCIDR, Log: log})
	if err != nil {
		return nil, err
	}
	wanted := desired.New()
	joined, err := newCluster(clusterConfig{
		config: c, member: in.member, client: in.client, ips: ips, desired: wanted, full: in.state.full, events: events.recorder,
		written: in.telemetry.Metrics.StatusWritten, ready: in.telemetry.Metrics.NodeReady, log: log,
	})
	if err != nil {
		return nil, err
	}
	capacity, err := newCapacity(c, known, ports, joined)
	if err != nil {
		return nil, err
	}
	tree, err := cgroup.Open()
	if err != nil {
		return nil, err
	}
	driver := cgroup.NewRuntimeDriver(cgroup.RuntimeDriverConfig{
		Runtime: in.client, Configured: c.Cgroups.Driver, Root: c.CgroupRoot, Occupied: tree.Occupied, Systemd: systemd.Runs, Fail: in.fail, Log: log,
	})
	cgroups, err := cgroup.NewPods(cgroup.PodsConfig{
		Tree: tree, Owner: rt.owner, All: allPodsCgroup(c), Driver: driver.Get, Slices: systemd.New(systemd.Config{}), Log: log,
	})
	if err != nil {
		return nil, err
	}
	var up core.Upstream = standalone{}
	if joined != nil {
		up = joined.upstream
	}
	return &deps{
		config: c, owner: rt.owner, client: in.client, up: rt.signals.cameUp, features: known, bundle: rt.bundle, records: newRecords(c, log), telemetry: in.telemetry, events: events, victims: oom.NewVictims(),
		state: in.state, desired: wanted, cluster: joined, upstream: up, capacity: capacity, ports: ports, ips: ips, tree: tree, driver: driver, cgroups: cgroups,
		fail: in.fail, podsDir: filepath.Join(c.RootDir, "pods"), log: log,
	}, nil
}

// hostIPs returns the addresses that pods have as host IPs. In a cloud, its controller manager decides on them.
func (d *deps) hostIPs() []string {
	if d.cluster != nil && d.config.Cluster.ExternalCloud {
		if ips := node.HostIPs(d.cluster.node.Node()); len(ips) > 0 {
			return ips
		}
	}
	return d.ips.Last()
}

// refreshNode has the facts of the Node read again. It does nothing without a cluster.
func (d *deps) refreshNode() {
	if d.cluster != nil {
		d.cluster.node.Refresh()
	}
}
