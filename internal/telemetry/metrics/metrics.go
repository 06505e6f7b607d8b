// Package metrics exports what the agent does and what pods use, in the words that
// dashboards know: those of the kubelet, and of cAdvisor for containers. Names that
// begin with berth_ are our own.
//
//	/metrics           what the agent did (counted as it happens) and holds (read when asked)
//	/metrics/resource  CPU and memory of the node, of pods and of containers
//	/metrics/cadvisor  all that is known of containers
//	/metrics/probes    what probes found
//	/metrics/slis      how health checks went
//
// Metrics only counts: nothing is decided here, no call blocks, and only what is
// really measured is exported. Metrics of pods are computed with each scrape, or dropped when the
// pod goes, so they do not grow.
package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics counts what happens.
type Metrics struct {
	main, probes, checks *prometheus.Registry

	pods     podMetrics
	runtime  runtimeMetrics
	requests requestMetrics
	client   clientMetrics
	probed   *probeMetrics
	volumes  volumeMetrics
	images   imageMetrics
	node     nodeMetrics
	health   healthMetrics
	startup  startup
}

// New returns metrics of which nothing has been counted yet.
func New() (*Metrics, error) {
	m := &Metrics{
		main: prometheus.NewRegistry(), probes: prometheus.NewRegistry(), checks: prometheus.NewRegistry(),
		pods: newPodMetrics(), runtime: newRuntimeMetrics(), requests: newRequestMetrics(), client: newClientMetrics(),
		probed: newProbeMetrics(), volumes: newVolumeMetrics(), images: newImageMetrics(), node: newNodeMetrics(), health: newHealthMetrics(),
		startup: startup{began: time.Now()},
	}
	all := []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	for _, group := range [][]prometheus.Collector{m.pods.all(), m.runtime.all(), m.requests.all(), m.client.all(), m.volumes.all(), m.images.all(), m.node.all()} {
		all = append(all, group...)
	}
	var err error
	for _, collector := range all {
		err = errors.Join(err, m.main.Register(collector))
	}
	err = errors.Join(err, m.probes.Register(m.probed.total), m.probes.Register(m.probed.duration),
		m.checks.Register(m.health.last), m.checks.Register(m.health.total))
	return m, err
}
