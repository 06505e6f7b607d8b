package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"berth/internal/lib/pod"
)

// probeMetrics are about single containers, so they are dropped with their pod.
type probeMetrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu   sync.Mutex
	pods map[pod.UID]probedPod
}

type probedPod struct{ namespace, name string }

func newProbeMetrics() *probeMetrics {
	return &probeMetrics{
		total: counts("prober_probe_total", "Checks of containers, by what came of them.",
			"probe_type", "result", "container", "pod", "namespace", "pod_uid"),
		duration: histograms("prober_probe_duration_seconds", "Time of checks of containers.", prometheus.DefBuckets,
			"probe_type", "container", "pod", "namespace"),
		pods: map[pod.UID]probedPod{},
	}
}

// Probe is one check of a container.
type Probe struct {
	UID                        pod.UID
	Namespace, Name, Container string
	Kind                       string // Startup, Liveness, Readiness
	Result                     string // successful, failed, unknown
	Took                       time.Duration
}

// Probed counts a run of a probe.
func (m *Metrics) Probed(p Probe) {
	m.probed.mu.Lock()
	m.probed.pods[p.UID] = probedPod{p.Namespace, p.Name}
	m.probed.mu.Unlock()
	m.probed.total.WithLabelValues(p.Kind, p.Result, p.Container, p.Name, p.Namespace, string(p.UID)).Inc()
	m.probed.duration.WithLabelValues(p.Kind, p.Container, p.Name, p.Namespace).Observe(p.Took.Seconds())
}

// Forget drops the metrics of a pod that is gone.
func (m *Metrics) Forget(uid pod.UID) {
	m.probed.mu.Lock()
	defer m.probed.mu.Unlock()
	m.probed.forget(uid)
}

// forget is called with the lock held. A pod of the same name may live on.
func (m *probeMetrics) forget(uid pod.UID) {
	gone, ok := m.pods[uid]
	if !ok {
		return
	}
	delete(m.pods, uid)
	m.total.DeletePartialMatch(prometheus.Labels{"pod_uid": string(uid)})
	for _, other := range m.pods {
		if other == gone {
			return
		}
	}
	m.duration.DeletePartialMatch(prometheus.Labels{"namespace": gone.namespace, "pod": gone.name})
}

// prune drops all pods but these: a check may end after its pod was forgotten.
func (m *probeMetrics) prune(alive map[pod.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.pods {
		if !alive[uid] {
			m.forget(uid)
		}
	}
}

// healthMetrics are about the agent's own health.
type healthMetrics struct {
	last  *prometheus.GaugeVec
	total *prometheus.CounterVec
}

func newHealthMetrics() healthMetrics {
	return healthMetrics{
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "Whether a health check passed (1) or failed (0) the last time.",
		}, []string{"name", "type"}),
		total: counts("kubernetes_healthchecks_total", "Health checks, by what came of them.", "name", "type", "status"),
	}
}

// Checked counts a health check that was made for /healthz.
func (m *Metrics) Checked(name string, err error) {
	status, value := "success", 1.0
	if err != nil {
		status, value = "error", 0
	}
	m.health.last.WithLabelValues(name, "healthz").Set(value)
	m.health.total.WithLabelValues(name, "healthz", status).Inc()
}
