package app

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	clientgo "k8s.io/client-go/tools/metrics"

	"berth/internal/api/nodeapi"
	machine "berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/core/execute"
	"berth/internal/pods/cgroup"
	"berth/internal/telemetry/measure"
	"berth/internal/telemetry/metrics"
	"berth/internal/telemetry/stats"
	"berth/internal/telemetry/trace"
	"berth/internal/telemetry/waterfall"
)

// waterfallsKept is of how many pods the start can be looked at.
const waterfallsKept = 512

// newWatcher makes what sees all that is done for pods. It is there before all
// that it watches.
func newWatcher(ctx context.Context, c *config.Config, log *slog.Logger) (*measure.Recorder, *trace.Tracer, error) {
	m, err := metrics.New()
	if err != nil {
		return nil, nil, err
	}
	clientgo.Register(m.ClientGo())
	var tracer *trace.Tracer // nil traces nothing, and costs nothing
	if c.Tracing != nil {
		tracer, err = trace.New(ctx, trace.Config{
			Endpoint: c.Tracing.Endpoint, PerMillion: c.Tracing.PerMillion, NodeName: c.NodeName, Version: c.Version, Log: log,
		})
		if err != nil {
			return nil, nil, err
		}
	}
	watcher, err := measure.New(measure.Config{Metrics: m, Waterfalls: waterfall.New(waterfallsKept), Tracer: tracer})
	return watcher, tracer, err
}

// measured is what can be read of all that.
type measured struct {
	stats  *stats.Reader
	pages  *metrics.Pages
	counts *metrics.Metrics
}

// newMeasured makes the pages of a node whose road is complete.
func newMeasured(c *config.Config, n *node, in surroundings, executor *execute.Executor) (*measured, error) {
	counters, err := cgroup.OpenCounters()
	if err != nil {
		return nil, err
	}
	reader, err := stats.New(n.group.Context(), stats.Config{
		NodeName: c.NodeName, Pods: n.pool.Active, Known: n.observer.All, Cgroup: executor.Node.Cgroup, AllPods: c.CgroupRoot,
		Volume: n.volumes.Path, Counters: counters, Runtime: in.client, RootDir: c.RootDir, Log: n.log,
	})
	if err != nil {
		return nil, err
	}
	mirrored := func(p *v1.Pod) bool {
		_, ok := in.wanted.MirrorOf(p)
		return ok
	}
	pages, err := metrics.NewPages(metrics.PagesConfig{
		Metrics: in.watcher.Metrics, NodeName: c.NodeName, Version: c.Version, Kubernetes: machine.Kubernetes, Stats: reader, Slots: executor.Slots.Usage,
		Counts: func() metrics.Counts {
			return measure.Count(in.wanted.Pods(), mirrored, n.pool.Lives(), n.observer.All())
		},
		Volumes: func() map[metrics.Volumes]int { return measure.Volumes(n.pool.Active(), n.volumes.Path) },
	})
	return &measured{stats: reader, pages: pages, counts: in.watcher.Metrics}, err
}

func (m *measured) handlers() nodeapi.Metrics {
	return nodeapi.Metrics{
		Main: m.pages.Main(), Cadvisor: m.pages.Cadvisor(), Resource: m.pages.Resource(), Probes: m.pages.Probes(), SLIs: m.pages.SLIs(),
	}
}
