package core

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/execute"
	"berth/internal/core/plan"
	"berth/internal/core/worker"
	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/event"
)

// Config is what a Core is made of besides its Loop: the services that the executor calls for each pod. Package
// execute says what they mean.
type Config struct {
	Images      execute.Images
	Hooks       execute.Hooks
	Probes      execute.Probes
	Objects     execute.Objects
	Volumes     execute.Volumes
	RuntimeInfo execute.RuntimeInfo
	Host        execute.Host

	Node    render.Node
	Backoff plan.Backoff
	Slots   *execute.Slots
}

// Core takes pods from snapshots of their sources to running containers: the loop, the executor and the workers.
type Core struct {
	*Loop
	Executor *execute.Executor
	Pool     *worker.Pool
}

// New makes the executor and the workers of a loop. They stand still until Start.
func New(loop *Loop, c Config) (*Core, error) {
	l := loop.config
	executor, err := execute.New(execute.Config{
		Runtime: l.Runtime, RuntimeInfo: c.RuntimeInfo, Images: c.Images, Hooks: c.Hooks, Probes: c.Probes, Objects: c.Objects, Volumes: c.Volumes,
		Host: c.Host, Node: c.Node, Backoff: c.Backoff, Slots: c.Slots, Log: l.Log,
		Reports: execute.Reports{Statuses: loop.Statuses, Events: l.Events, Upstream: l.Upstream, Telemetry: l.Telemetry, PodGone: loop.Observer.Forget},
	})
	if err != nil {
		return nil, err
	}
	pool, err := worker.New(l.Group.Context(), worker.Config{
		Executor: executor, Observer: loop.Observer, Log: l.Log, EnqueueAt: loop.Agent.EnqueueAt, PodGone: loop.Agent.PodGone,
		Unobserved: func(p *v1.Pod, err error) {
			l.Events.Record(p, v1.EventTypeWarning, event.FailedSync, "error determining status: "+c.RuntimeInfo.Explain(err))
		},
		SyncStarted: l.Telemetry.SyncStarted, Restarted: l.Telemetry.Restarted,
	})
	return &Core{Loop: loop, Executor: executor, Pool: pool}, err
}

// Start sets the loop in motion. The sources of pods send on snapshots.
func (c *Core) Start(snapshots <-chan pod.Snapshot) {
	group := c.config.Group
	group.Go("agent", func(ctx context.Context) { c.Agent.Run(ctx, c.Pool, snapshots) })
	group.Go("observer", c.OnceUp(c.Observer.Run))
}

// Stop ends all goroutines of the group, then the workers. Pods stay as they are.
func (c *Core) Stop() {
	c.config.Group.Stop()
	c.Pool.Stop()
}

// Resync reads all pods from a runtime that has come back, and syncs them: what happened while it was away caused
// no events.
func (c *Core) Resync() {
	c.Observer.Relist()
	c.Pool.EnqueueAll()
}
