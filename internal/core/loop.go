package core

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"berth/internal/core/admit"
	"berth/internal/core/agent"
	"berth/internal/core/execute"
	"berth/internal/core/observe"
	"berth/internal/core/status"
	"berth/internal/intake/desired"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/telemetry/measure"
)

const (
	relistInterval       = time.Minute
	pollInterval         = time.Second // of a runtime without events
	housekeepingInterval = time.Minute
)

// Runtime is the container runtime, as the observer and the executor call it.
type Runtime interface {
	observe.Runtime
	execute.Runtime
}

// Events records the events of pods and containers.
type Events interface {
	agent.Events
	execute.Events
}

// Upstream receives the statuses and mirrors of the pods of this node.
type Upstream interface {
	agent.Upstream
	execute.Upstream
}

// ProbeResults are the channels on which the results of probes arrive.
type ProbeResults struct {
	Liveness, Readiness, Startup <-chan pod.ProbeResult
}

// LoopConfig is what a Loop is made of. All fields are required but ReloadNode, EphemeralContainers and ProbeResults;
// package agent says what its own fields mean.
type LoopConfig struct {
	Log       *slog.Logger
	Group     *run.Group // runs the goroutines of the loop, and of the workers
	Runtime   Runtime
	RuntimeUp <-chan struct{} // closed once the runtime has come up for the first time
	Events    Events
	Upstream  Upstream
	Telemetry *measure.Recorder

	Sources             []string
	Desired             *desired.Set
	Node                func() admit.Node
	ReloadNode          func(context.Context) error
	InRuntime           func(context.Context) (map[pod.UID]*pod.Observed, error)
	OnDisk              func() (map[pod.UID]*pod.Observed, error)
	EphemeralContainers agent.EphemeralContainers
	ProbeResults        ProbeResults
}

// Loop is the agent with the observer of the runtime. It is made before the services of pods, such as images and
// volumes, because they enqueue pods to the agent.
type Loop struct {
	Agent    *agent.Agent
	Observer *observe.Observer
	Statuses *status.Store
	config   LoopConfig
}

// NewLoop makes the agent and the observer. They stand still until Core.Start.
func NewLoop(c LoopConfig) (*Loop, error) {
	if c.Group == nil || c.RuntimeUp == nil || c.Telemetry == nil {
		return nil, errors.New("core: group, runtimeUp and telemetry are required")
	}
	statuses := status.NewStore()
	loop, err := agent.New(agent.Config{
		Log: c.Log, Node: c.Node, ReloadNode: c.ReloadNode, Sources: c.Sources, Desired: c.Desired, Statuses: statuses, Events: c.Events, Upstream: c.Upstream,
		InRuntime: c.InRuntime, OnDisk: c.OnDisk, Housekeeping: housekeepingInterval, Metrics: c.Telemetry, EphemeralContainers: c.EphemeralContainers,
		Liveness: c.ProbeResults.Liveness, Readiness: c.ProbeResults.Readiness, Startup: c.ProbeResults.Startup,
	})
	if err != nil {
		return nil, err
	}
	observer, err := observe.New(observe.Config{
		Runtime: c.Runtime, Log: c.Log, RelistInterval: relistInterval, PollInterval: pollInterval, Enqueue: loop.Enqueue,
		Relisted: c.Telemetry.Relisted, PodRead: c.Telemetry.Metrics.PodRelisted,
	})
	return &Loop{Agent: loop, Observer: observer, Statuses: statuses, config: c}, err
}

// OnceUp returns f for when the runtime has come up for the first time. Before that, calls to the runtime would
// only fail.
func (l *Loop) OnceUp(f func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		select {
		case <-l.config.RuntimeUp:
			f(ctx)
		case <-ctx.Done():
		}
	}
}
