package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// volumeMetrics are about the volumes of pods. The label migrated is true for volumes of kinds that are
// translated to those of a CSI driver.
type volumeMetrics struct{ operations, csi *prometheus.HistogramVec }

func newVolumeMetrics() volumeMetrics {
	buckets := []float64{.01, .1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}
	return volumeMetrics{
		operations: histograms("storage_operation_duration_seconds", "Time to set up a volume.", buckets,
			"operation_name", "volume_plugin", "status", "migrated"),
		csi: histograms("csi_operations_seconds", "Time of calls to CSI drivers.", buckets,
			"driver_name", "method_name", "grpc_status_code", "migrated"),
	}
}

func (v volumeMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{v.operations, v.csi}
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

// CSICalled observes a call to a CSI driver.
func (m *Metrics) CSICalled(driver, method, code string, migrated bool, took time.Duration) {
	m.volumes.csi.WithLabelValues(driver, "/csi.v1.Node/"+method, code, strconv.FormatBool(migrated)).Observe(took.Seconds())
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
