package app

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	clientgo "k8s.io/client-go/tools/metrics"

	"berth/internal/api/nodeapi"
	"berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/config/features"
	"berth/internal/core"
	"berth/internal/pods/cgroup"
	"berth/internal/telemetry/measure"
	"berth/internal/telemetry/metrics"
	"berth/internal/telemetry/stats"
	"berth/internal/telemetry/trace"
	"berth/internal/telemetry/waterfall"
)

// waterfallsKept is the number of pods whose start waterfall is kept.
const waterfallsKept = 512

// newTelemetry makes the recorder of metrics, traces and waterfalls. It is made before the parts that
// report to it.
func newTelemetry(ctx context.Context, c *config.Config, log *slog.Logger) (*measure.Recorder, *trace.Tracer, error) {
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
	recorder, err := measure.New(measure.Config{Metrics: m, Waterfalls: waterfall.New(waterfallsKept), Tracer: tracer})
	return recorder, tracer, err
}

// nodeStats are the measurements of this node and its pods.
type nodeStats struct {
	reader *stats.Reader
	pages  *metrics.Pages
	counts *metrics.Metrics
}

// certificateExpiry returns when the certificates of this node expire. A nil function: there is no
// such certificate.
type certificateExpiry struct{ client, server func() time.Time }

func newNodeStats(ctx context.Context, d *deps, services *podServices, pods *core.Core, expiry certificateExpiry) (*nodeStats, error) {
	c := d.config
	counters, err := cgroup.OpenCounters()
	if err != nil {
		return nil, err
	}
	reader, err := stats.New(ctx, stats.Config{
		NodeName: c.NodeName, Pods: pods.Pool.Active, Known: pods.Observer.All,
		Cgroup:      func(p *v1.Pod) string { return d.cgroups.Path(pods.Executor.Node.Cgroup(p)) },
		AllPods:     func() string { return d.cgroups.Path(c.CgroupRoot) },
		AgentCgroup: c.Cgroups.KubeletCgroups, RuntimeCgroup: c.Cgroups.RuntimeCgroups, SystemCgroup: c.Cgroups.SystemCgroups,
		OnMeasured: d.telemetry.Metrics.VolumeMeasured,
		Volume:     services.volumes.Path, Counters: counters, Runtime: d.client, RootDir: c.RootDir, Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	mirrored := func(p *v1.Pod) bool {
		_, ok := d.desired.MirrorOf(p)
		return ok
	}
	cgroupVersion := 1
	if d.tree.V2() {
		cgroupVersion = 2
	}
	pages, err := metrics.NewPages(metrics.PagesConfig{
		CgroupVersion: cgroupVersion,
		Metrics:       d.telemetry.Metrics, NodeName: c.NodeName, Version: c.Version, Kubernetes: node.Kubernetes, Stats: reader, Slots: pods.Executor.Slots.Usage,
		Counts: func() metrics.Counts {
			return measure.Count(d.desired.Pods(), mirrored, pods.Pool.Lives(), pods.Observer.All())
		},
		Volumes: func() map[metrics.Volumes]int { return measure.Volumes(pods.Pool.Active(), services.volumes.Path) },
		Booted:  reader.Booted(), Features: featureStates(c),
		ImageRecords: func() metrics.ImageRecords {
			pulled, pulling := d.records.Counts()
			return metrics.ImageRecords{Pulled: pulled, Pulling: pulling}
		},
		Plugins: func() []metrics.Plugin {
			var out []metrics.Plugin
			for socket, registered := range services.plugins.Sockets() {
				out = append(out, metrics.Plugin{Socket: socket, Registered: registered})
			}
			return out
		},
		ProtectedMemory: protectedMemory(c, d.cgroups),
		Certificates:    services.countCertificates,
		ClientExpiry:    expiry.client, ServerExpiry: expiry.server,
	})
	return &nodeStats{reader: reader, pages: pages, counts: d.telemetry.Metrics}, err
}

// featureStates returns the feature gates of an agent that was started as kubelet. Under its own name, it has none.
func featureStates(c *config.Config) []metrics.Feature {
	if !c.AsKubelet() {
		return nil
	}
	var out []metrics.Feature
	for _, name := range features.Names() {
		f := metrics.Feature{Name: name, Enabled: c.Gates.Enabled(name)}
		if stage := features.StageOf(name); stage != features.GA {
			f.Stage = string(stage)
		}
		out = append(out, f)
	}
	return out
}

// protectedMemory returns the function that sums up the memory which is kept for pods, or nil without memory QoS.
func protectedMemory(c *config.Config, cgroups *cgroup.Pods) func() metrics.ProtectedMemory {
	if c.Cgroups.MemoryQoS == nil {
		return nil
	}
	return func() metrics.ProtectedMemory {
		never, last := cgroups.Protected()
		return metrics.ProtectedMemory{Min: never, Low: last}
	}
}

func (s *nodeStats) handlers() nodeapi.Metrics {
	return nodeapi.Metrics{
		Main: s.pages.Main(), Cadvisor: s.pages.Cadvisor(), Resource: s.pages.Resource(), Probes: s.pages.Probes(), SLIs: s.pages.SLIs(),
	}
}
