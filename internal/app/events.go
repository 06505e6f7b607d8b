package app

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/core"
	"berth/internal/core/execute"
	"berth/internal/host/kernel"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/lib/statefile"
	"berth/internal/telemetry/event"
	"berth/internal/telemetry/oom"
)

// eventRecorder records Kubernetes events of this node and its pods, in a state file and, in a
// cluster, at the API server.
type eventRecorder struct {
	store    *event.Store
	recorder *event.Recorder
	sink     *event.APISink // nil without a cluster
	// The groups stop one after the other: the recorder after the parts that record events, and the sink
	// after the recorder.
	recording, sending *run.Group
}

// newEventRecorder opens the file of events. member is nil without a cluster.
func newEventRecorder(ctx context.Context, c *config.Config, member *membership, state *statefile.Keeper, log *slog.Logger) (*eventRecorder, error) {
	store, err := event.OpenStore(event.StoreConfig{Path: c.StatePath("events.jsonl"), State: state, Log: log})
	if err != nil {
		return nil, err
	}
	settings := event.Config{Node: c.NodeName, Store: store, Log: log}
	var sink *event.APISink
	if member != nil {
		sink, err = event.NewAPISink(event.SinkConfig{Client: member.clients.Events.CoreV1(), Log: log})
		if err != nil {
			return nil, err
		}
		settings.Sink = sink.Send
		settings.Component = "kubelet" // kubectl and alerts look for this name
	}
	recorder, err := event.New(settings)
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // it outlasts the parts that record events
	return &eventRecorder{store: store, recorder: recorder, sink: sink, recording: run.NewGroup(ctx, log), sending: run.NewGroup(ctx, log)}, nil
}

func (r *eventRecorder) start() {
	r.recording.Go("events", r.recorder.Run)
	if r.sink != nil {
		r.sending.Go("events to the API server", r.sink.Run)
	}
}

func (r *eventRecorder) stop() {
	r.recording.Stop()
	r.sending.Stop()
}

// recordMachine records what a kubelet records of its machine when it starts: that cgroups of version 1 are used, that volumes in
// memory may be swapped out, and that the resolver's settings have more entries than pods can get.
func recordMachine(c *config.Config, cgroupV2 bool, events node.Events) {
	if !c.AsKubelet() {
		return
	}
	if !cgroupV2 {
		events.RecordNode(v1.EventTypeWarning, event.CgroupV1, "cgroup v1 is in maintenance mode: migrate this machine to cgroup v2")
	}
	if swaps, err := kernel.SwapInUse(); err == nil && swaps && kernel.TmpfsCanSwap() {
		events.RecordNode(v1.EventTypeWarning, event.PossibleMemoryBackedVolumesOnDisk,
			"this kernel can't keep tmpfs out of the swap: Secrets and other volumes in memory may be written to disk")
	}
	dns, err := execute.ReadResolvConf(c.ResolvConf)
	if err != nil {
		events.RecordNode(v1.EventTypeWarning, event.CheckLimitsForResolvConf, err.Error())
	}
	for _, message := range dns.CheckLimits() {
		events.RecordNode(v1.EventTypeWarning, event.CheckLimitsForResolvConf, message)
	}
}

// newOOMWatcher makes the reporter of processes that the kernel kills because memory is used up.
func newOOMWatcher(d *deps, pods *core.Core) (*oom.Watcher, error) {
	return oom.New(oom.Config{
		Victims: d.victims, Observed: pods.Observer.All, Enqueue: pods.Pool.Enqueue, Log: d.log,
		Pod: func(uid pod.UID) (*v1.Pod, bool) {
			l, ok := pods.Pool.Life(uid)
			return l.Pod, ok
		},
		RecordContainer: d.events.recorder.RecordContainer, RecordNode: d.events.recorder.RecordNode,
	})
}
