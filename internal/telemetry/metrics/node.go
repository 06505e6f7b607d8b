package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// nodeMetrics are about the certificates, the images and the shutdown of this machine.
type nodeMetrics struct {
	clientRenewErrors, serverRenewErrors prometheus.Counter
	serverRotation                       prometheus.Histogram
	imagesCollected                      *prometheus.CounterVec
	shutdownStart, shutdownEnd           prometheus.Gauge
}

const day = 24 * 60 * 60 // seconds

func newNodeMetrics() nodeMetrics {
	return nodeMetrics{
		clientRenewErrors: count("kubelet_certificate_manager_client_expiration_renew_errors", "Failed attempts to get a new client certificate."),
		serverRenewErrors: count("kubelet_server_expiration_renew_errors", "Failed attempts to get a new serving certificate."),
		serverRotation: histogram("kubelet_certificate_manager_server_rotation_seconds", "Age of a serving certificate when a new one took its place.",
			[]float64{60, 60 * 60, 4 * 60 * 60, day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day, 4 * 360 * day}),
		imagesCollected: counts("kubelet_image_garbage_collected_total", "Images that were removed because they were not used.", "reason"),
		shutdownStart: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_graceful_shutdown_start_time_seconds", Help: "When the last shutdown of the machine began to stop pods, in seconds since 1970.",
		}),
		shutdownEnd: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_graceful_shutdown_end_time_seconds", Help: "When the last shutdown of the machine had stopped the pods, in seconds since 1970; 0 while it goes on.",
		}),
	}
}

func (n nodeMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{n.clientRenewErrors, n.serverRenewErrors, n.serverRotation, n.imagesCollected, n.shutdownStart, n.shutdownEnd}
}

// ClientRenewFailed counts a failed attempt to get a client certificate.
func (m *Metrics) ClientRenewFailed() { m.node.clientRenewErrors.Inc() }

// ServerRenewFailed counts a failed attempt to get a serving certificate.
func (m *Metrics) ServerRenewFailed() { m.node.serverRenewErrors.Inc() }

// ServerRotated observes a new serving certificate: age is that of the certificate before.
func (m *Metrics) ServerRotated(age time.Duration) { m.node.serverRotation.Observe(age.Seconds()) }

// ImageCollected counts an image that was removed because of its age or because space was needed: the reason is age or
// space.
func (m *Metrics) ImageCollected(reason string) { m.node.imagesCollected.WithLabelValues(reason).Inc() }

// ShutdownStarted and ShutdownEnded set when a shutdown of the machine began to stop pods, and when it had.
func (m *Metrics) ShutdownStarted(at time.Time) {
	m.node.shutdownStart.Set(seconds(at))
	m.node.shutdownEnd.Set(0)
}

func (m *Metrics) ShutdownEnded(at time.Time) { m.node.shutdownEnd.Set(seconds(at)) }
