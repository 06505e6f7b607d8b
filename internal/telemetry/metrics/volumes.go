package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// volumeMetrics are about the volumes of pods. The label migrated is true for volumes of kinds that are
// translated to those of a CSI driver.
type volumeMetrics struct {
	operations, totals, csi, collections *prometheus.HistogramVec
	orphans, orphanErrors                prometheus.Gauge
	labels                               map[string]*prometheus.GaugeVec // of SELinux, by name
}

func newVolumeMetrics() volumeMetrics {
	buckets := []float64{.01, .1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}
	return volumeMetrics{
		operations: histograms("storage_operation_duration_seconds", "Time to set up a volume.", buckets,
			"operation_name", "volume_plugin", "status", "migrated"),
		totals: histograms("volume_operation_total_seconds", "Time from when a pod was first seen until a volume of it was set up.", buckets,
			"operation_name", "plugin_name"),
		collections: histograms("kubelet_volume_metric_collection_duration_seconds", "Time to measure a volume, the logs of a container, or a file system.", prometheus.DefBuckets, "metric_source"),
		orphans: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_orphan_pod_cleaned_volumes", Help: "Pods that no source has, and whose files and volumes the last housekeeping removed.",
		}),
		orphanErrors: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_orphan_pod_cleaned_volumes_errors", Help: "Those of them that are still there since the housekeeping before.",
		}),
		csi: histograms("csi_operations_seconds", "Time of calls to CSI drivers.", buckets,
			"driver_name", "method_name", "grpc_status_code", "migrated"),
		labels: newLabelMetrics(),
	}
}

// newLabelMetrics returns the families about volumes that are mounted with a SELinux label, by name.
func newLabelMetrics() map[string]*prometheus.GaugeVec {
	out := map[string]*prometheus.GaugeVec{}
	for name, help := range map[string]string{
		"container_errors_total":                 "Volumes that could not be mounted because the SELinux label of a container is not valid.",
		"container_warnings_total":               "The same for volumes that are not mounted with a label, and are used nevertheless.",
		"pod_context_mismatch_errors_total":      "Volumes that could not be mounted because containers of a pod need different SELinux labels.",
		"pod_context_mismatch_warnings_total":    "The same for volumes that are not mounted with a label, and are used nevertheless.",
		"volume_context_mismatch_errors_total":   "Volumes that could not be mounted because another pod has them mounted with another SELinux label.",
		"volume_context_mismatch_warnings_total": "The same for volumes that are not mounted with a label, and are used nevertheless.",
		"volumes_admitted_total":                 "Volumes whose pod has a SELinux label for their files.",
	} {
		labels := []string{"access_mode"}
		if strings.HasPrefix(name, "volume") {
			labels = []string{"volume_plugin", "access_mode"}
		}
		out[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "volume_manager_selinux_" + name, Help: help}, labels)
	}
	return out
}

func (v volumeMetrics) all() []prometheus.Collector {
	out := []prometheus.Collector{v.operations, v.csi, v.totals, v.collections, v.orphans, v.orphanErrors}
	for _, family := range v.labels {
		out = append(out, family)
	}
	return out
}

// VolumeSetUp counts an attempt to set up a volume. The plugin is the kubelet's name for the
// kind of the volume.
func (m *Metrics) VolumeSetUp(plugin string, migrated bool, took time.Duration, err error) {
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	m.volumes.operations.WithLabelValues("volume_mount", plugin, status, strconv.FormatBool(migrated)).Observe(took.Seconds())
}

// VolumeReady observes the time from when a pod was first seen until a volume of it was set up.
func (m *Metrics) VolumeReady(plugin string, sinceSeen time.Duration) {
	m.volumes.totals.WithLabelValues("overall_volume_mount", plugin).Observe(sinceSeen.Seconds())
}

// VolumeMeasured observes the measurement of a directory. The source is du for one whose files are counted, and statfs for one whose
// file system was asked.
func (m *Metrics) VolumeMeasured(source string, took time.Duration) {
	m.volumes.collections.WithLabelValues(source).Observe(took.Seconds())
}

// OrphansCleaned sets the number of orphans that housekeeping cleans up, and of those among them that an earlier
// housekeeping could not.
func (m *Metrics) OrphansCleaned(pods, failed int) {
	m.volumes.orphans.Set(float64(pods))
	m.volumes.orphanErrors.Set(float64(failed))
}

// CSICalled observes a call to a CSI driver.
func (m *Metrics) CSICalled(driver, method, code string, migrated bool, took time.Duration) {
	m.volumes.csi.WithLabelValues(driver, "/csi.v1.Node/"+method, code, strconv.FormatBool(migrated)).Observe(took.Seconds())
}

// VolumeLabelled counts what became of the SELinux label of a volume of a CSI driver: container (its label is
// not valid), pod_context_mismatch, volume_context_mismatch or volumes_admitted.
func (m *Metrics) VolumeLabelled(outcome string, warning bool, driver, accessMode string) {
	name := outcome + "_errors_total"
	switch {
	case outcome == "volumes_admitted":
		name = outcome + "_total"
	case warning:
		name = outcome + "_warnings_total"
	}
	labels := prometheus.Labels{"access_mode": accessMode}
	if strings.HasPrefix(name, "volume") {
		labels["volume_plugin"] = "kubernetes.io/csi/" + driver
	}
	m.volumes.labels[name].With(labels).Inc()
}

// Volumes is the key of a count of volumes: their kind, and whether they are desired or set up.
type Volumes struct {
	Plugin string
	SetUp  bool
}

// PodCertificates is the key of a count of certificates that pods have in volumes.
type PodCertificates struct {
	Signer string
	State  string // fresh, overdue_for_refresh, expired, not_yet_issued, denied, failed
}

func (p present) certificates(emit emitFunc) {
	if p.pages.Certificates == nil {
		return
	}
	for of, n := range p.pages.Certificates() {
		emit("kubelet_podcertificate_states", "Certificates of pods (podCertificate sources of volumes), by signer and state.", float64(n),
			"signer_name", of.Signer, "state", of.State)
	}
}

func (p present) volumes(emit emitFunc) {
	if p.pages.Volumes == nil {
		return
	}
	for of, n := range p.pages.Volumes() {
		state := "desired_state_of_world"
		if of.SetUp {
			state = "actual_state_of_world"
		}
		emit("volume_manager_total_volumes", "Volumes of pods: those that are wanted, and those that are there.", float64(n),
			"plugin_name", of.Plugin, "state", state)
	}
}
