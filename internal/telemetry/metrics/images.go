package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// imageMetrics are about images: whether they are there, which pods may use them, and the credentials for them.
type imageMetrics struct {
	ensured, checks             *prometheus.CounterVec
	pluginDuration              *prometheus.HistogramVec
	pluginErrors                *prometheus.CounterVec
	pluginConfig                *prometheus.GaugeVec
	volumes, mounted, unmounted prometheus.Counter
}

func newImageMetrics() imageMetrics {
	return imageMetrics{
		ensured: counts("kubelet_image_manager_ensure_image_requests_total", "Images that containers were to be started from.",
			"pull_policy", "present_locally", "pull_required"),
		checks: counts("kubelet_imagemanager_image_mustpull_checks_total", "Checks of whether a pod may use an image that is there.", "result"),
		pluginDuration: histograms("kubelet_credential_provider_plugin_duration", "Time in seconds until a credential provider plugin answered.",
			prometheus.DefBuckets, "plugin_name"),
		pluginErrors: counts("kubelet_credential_provider_plugin_errors_total", "Failed calls of a credential provider plugin.", "plugin_name"),
		pluginConfig: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_credential_provider_config_info", Help: "The hash of the configuration of credential providers; always 1.",
		}, []string{"hash"}),
		volumes:   count("kubelet_image_volume_requested_total", "Images that were to be mounted as volumes."),
		mounted:   count("kubelet_image_volume_mounted_succeed_total", "Images that were mounted as volumes."),
		unmounted: count("kubelet_image_volume_mounted_errors_total", "Images that could not be mounted as volumes."),
	}
}

func (i imageMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{i.ensured, i.checks, i.pluginDuration, i.pluginErrors, i.pluginConfig, i.volumes, i.mounted, i.unmounted}
}

// ImageEnsured counts a container whose image was looked for: whether it is there, and whether it has to be pulled. Nil:
// that was not found out.
func (m *Metrics) ImageEnsured(policy string, present, pull *bool) {
	text := func(b *bool) string {
		if b == nil {
			return "unknown"
		}
		return strconv.FormatBool(*b)
	}
	m.images.ensured.WithLabelValues(strings.ToLower(policy), text(present), text(pull)).Inc()
}

// ImageAccessChecked counts a check of whether a pod may use an image that is there. The result is one of the kubelet's
// words: credentialPolicyAllowed, credentialRecordFound, mustAuthenticate.
func (m *Metrics) ImageAccessChecked(result string) { m.images.checks.WithLabelValues(result).Inc() }

// CredentialPluginRan observes a run of a credential provider plugin.
func (m *Metrics) CredentialPluginRan(plugin string, took time.Duration, err error) {
	m.images.pluginDuration.WithLabelValues(plugin).Observe(took.Seconds())
	if err != nil {
		m.images.pluginErrors.WithLabelValues(plugin).Inc()
	}
}

// CredentialPluginsConfigured sets the hash of the configuration of credential providers.
func (m *Metrics) CredentialPluginsConfigured(hash string) {
	m.images.pluginConfig.WithLabelValues(hash).Set(1)
}

// ImageVolumes counts the image volumes that a container was to be made with, those that were mounted, and those
// that could not be.
func (m *Metrics) ImageVolumes(requested, mounted, failed int) {
	m.images.volumes.Add(float64(requested))
	m.images.mounted.Add(float64(mounted))
	m.images.unmounted.Add(float64(failed))
}

// ImageRecords are the numbers of files that say which image was pulled with which credentials, and which pulls go on.
type ImageRecords struct{ Pulled, Pulling int }

func (p present) imageRecords(emit emitFunc) {
	if p.pages.ImageRecords == nil {
		return
	}
	records := p.pages.ImageRecords()
	emit("kubelet_imagemanager_ondisk_pulledrecords", "Records of images that were pulled.", float64(records.Pulled))
	emit("kubelet_imagemanager_ondisk_pullintents", "Records of pulls that go on, or whose result is not on record yet.", float64(records.Pulling))
}
