package app

import (
	"context"

	"berth/internal/core"
	"berth/internal/intake/objects"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/ephemeral"
	"berth/internal/pods/orphan"
	"berth/internal/pods/probe"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/render"
)

// execProbes is how many exec probes of all pods run at a time.
const execProbes = 8

// syncLoop is the agent, and the parts that enqueue pods to it.
type syncLoop struct {
	*core.Loop
	probes  *probe.Manager
	objects objects.Provider
	onDisk  podsOnDisk
}

// podsOnDisk lists the pods that have files, links or cgroups on this machine.
type podsOnDisk func() (map[pod.UID]*pod.Observed, error)

func newSyncLoop(d *deps, group *run.Group, sources []string) (*syncLoop, error) {
	c, onDisk := d.config, newPodsOnDisk(d)
	debugs, err := ephemeral.Open(d.state.File(c.StatePath("debug.json"), "the containers that were added for debugging"), d.log)
	if err != nil {
		return nil, err
	}
	probes, err := probe.New(probe.Config{
		Exec: d.client.Exec, Explain: cri.Reason, Expand: render.ExpandCommand, Events: d.events.recorder, Log: d.log,
		HostIP: func() string { return d.hostIPs()[0] }, StateFile: c.StatePath("probes.json"), ExecSlots: execProbes, OnCheck: d.telemetry.Probed,
	})
	if err != nil {
		return nil, err
	}
	loop, err := core.NewLoop(core.LoopConfig{
		Log: d.log, Group: group, Runtime: d.client, RuntimeUp: d.up, Events: d.events.recorder, Upstream: d.upstream, Telemetry: d.telemetry,
		Sources: sources, Desired: d.desired, Node: d.capacity.machine.Node, ReloadNode: d.capacity.reload, OnDisk: onDisk, EphemeralContainers: debugs,
		InRuntime:    d.features.List(d.settle),
		ProbeResults: core.ProbeResults{Liveness: probes.Liveness, Readiness: probes.Readiness, Startup: probes.Startup},
	})
	if err != nil {
		return nil, err
	}
	found, err := newObjects(d, loop.Agent.Enqueue)
	if err != nil {
		return nil, err
	}
	return &syncLoop{Loop: loop, probes: probes, objects: found, onDisk: onDisk}, nil
}

func newPodsOnDisk(d *deps) podsOnDisk {
	dirs := orphan.Dirs{Owner: d.owner, Pods: d.podsDir, Links: d.config.LogLinksDir, Cgroups: d.cgroups}
	return func() (map[pod.UID]*pod.Observed, error) {
		if err := dirs.RemoveDeadLinks(); err != nil {
			return nil, err
		}
		return dirs.List()
	}
}

// newObjects makes the providers of the objects that pods refer to, in manifests and in the cluster.
func newObjects(d *deps, enqueue func(context.Context, pod.UID)) (objects.Provider, error) {
	local, err := objects.NewLocal(objects.LocalConfig{
		Log: d.log, Enqueue: enqueue, State: d.state.FileForGood(d.config.StatePath("claims.json"), "which claim has which volume"),
		NodeName: d.config.NodeName, NodeLabels: d.capacity.labels,
	})
	if err != nil || d.cluster == nil {
		return objects.Provider{Local: local}, err
	}
	api, err := objects.NewAPI(objects.APIConfig{Client: d.cluster.clients.General, Log: d.log, Enqueue: enqueue})
	return objects.Provider{Local: local, API: api}, err
}
