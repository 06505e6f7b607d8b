package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// runtimeMetrics are about the talk with the container runtime.
type runtimeMetrics struct {
	calls, failures          *prometheus.CounterVec
	took                     *prometheus.HistogramVec
	relists, relistIntervals prometheus.Histogram
	podRelists               prometheus.Histogram
	relisted                 prometheus.Gauge
}

func newRuntimeMetrics() runtimeMetrics {
	return runtimeMetrics{
		calls:    counts("kubelet_runtime_operations_total", "Calls to the container runtime.", "operation_type"),
		failures: counts("kubelet_runtime_operations_errors_total", "Calls to the container runtime that failed.", "operation_type"),
		took: histograms("kubelet_runtime_operations_duration_seconds", "Time of calls to the container runtime.",
			prometheus.ExponentialBuckets(.005, 2.5, 14), "operation_type"),
		podRelists: histogram("kubelet_pleg_pod_relist_duration_seconds", "Time to read what the runtime holds of one pod.", prometheus.DefBuckets),
		relists:    histogram("kubelet_pleg_relist_duration_seconds", "Time to list all that the runtime holds.", prometheus.DefBuckets),
		// Berth lists once a minute while events arrive: the upper buckets are needed.
		relistIntervals: histogram("kubelet_pleg_relist_interval_seconds", "Time between two lists of all that the runtime holds.",
			append(append([]float64(nil), prometheus.DefBuckets...), 30, 60, 120)),
		relisted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_pleg_last_seen_seconds", Help: "When all that the runtime holds was last listed, in seconds since 1970.",
		}),
	}
}

func (r runtimeMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{r.calls, r.failures, r.took, r.relists, r.podRelists, r.relistIntervals, r.relisted}
}

// Call counts a call to the runtime.
func (m *Metrics) Call(operation string, took time.Duration, err error) {
	m.runtime.calls.WithLabelValues(operation).Inc()
	m.runtime.took.WithLabelValues(operation).Observe(took.Seconds())
	if err != nil {
		m.runtime.failures.WithLabelValues(operation).Inc()
	}
}

// Relisted observes a relist of all pods of the runtime, and the time since the relist before it
// began; 0: it was the first.
func (m *Metrics) Relisted(at time.Time, took, after time.Duration) {
	m.runtime.relists.Observe(took.Seconds())
	m.runtime.relisted.Set(seconds(at))
	if after > 0 {
		m.runtime.relistIntervals.Observe(after.Seconds())
	}
}

// PodRelisted observes how long it took to read one pod from the runtime.
func (m *Metrics) PodRelisted(took time.Duration) { m.runtime.podRelists.Observe(took.Seconds()) }
