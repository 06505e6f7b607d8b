//go:build real

package api

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/lab"
)

// scrape reads a page of metrics as Prometheus does.
func scrape(t *testing.T, l *lab.Lab, url, token string) (map[string]*dto.MetricFamily, error) {
	t.Helper()
	got, err := kit.GetURL(t.Context(), l, url, token)
	if err != nil {
		return nil, err
	}
	page, ok := strings.CutPrefix(got, "200 ")
	if !ok {
		return nil, fmt.Errorf("%s: %.200s", url, got)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(strings.NewReader(page))
}

// sample is the part of a scrape that metrics-server keeps of a container until the next scrape.
type sample struct {
	started, cpu, memory float64 // in seconds and bytes
	at                   time.Time
}

// sampleOf finds a container on the page that metrics-server reads. A container with a missing value
// is left out, as metrics-server does.
func sampleOf(page map[string]*dto.MetricFamily, pod string) (sample, error) {
	var s sample
	for name, to := range map[string]*float64{
		"container_start_time_seconds": &s.started, "container_cpu_usage_seconds_total": &s.cpu, "container_memory_working_set_bytes": &s.memory,
	} {
		for _, m := range page[name].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["namespace"] != "default" || labels["pod"] != pod || labels["container"] != "app" {
				continue
			}
			*to = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if name == "container_cpu_usage_seconds_total" {
				s.at = time.UnixMilli(m.GetTimestampMs())
			}
		}
		if *to <= 0 {
			return s, fmt.Errorf("there is no %s of %s", name, pod)
		}
	}
	if time.Since(s.at).Abs() > time.Minute {
		return s, fmt.Errorf("it was measured at %s", s.at)
	}
	return s, nil
}

// mustBeMeasured replays what stands behind 'kubectl top': a service account that may get
// nodes/metrics reads /metrics/resource twice. The pod may use a tenth of a processor,
// and does. It also lets Prometheus read all other pages: there is a pod that is probed, and
// the node's health was asked for.
func mustBeMeasured(t *testing.T, l *lab.Lab, admin kubernetes.Interface, n *lab.Node, pod string) {
	t.Helper()
	token := accountToken(t, admin, "metrics-server")
	letRead(t, admin, "metrics-server", "nodes/metrics")
	node := "https://" + net.JoinHostPort(n.Address, "10250")

	var first sample
	kit.Within(t, kit.WaitTimeout, func() error {
		page, err := scrape(t, l, node+"/metrics/resource", token)
		if err == nil {
			first, err = sampleOf(page, pod)
		}
		return err
	})
	kit.Within(t, kit.WaitTimeout, func() error {
		page, err := scrape(t, l, node+"/metrics/resource", token)
		if err != nil {
			return err
		}
		second, err := sampleOf(page, pod)
		if err != nil {
			return err
		}
		span := second.at.Sub(first.at)
		if span < 3*time.Second {
			return errors.New("it was not measured again yet")
		}
		cores := (second.cpu - first.cpu) / span.Seconds()
		t.Logf("kubectl top would say %.0fm and %.0fMi", cores*1000, second.memory/(1<<20))
		if cores < 0.05 || cores > 0.15 || second.memory > 64<<20 || second.started != first.started {
			t.Errorf("it uses %.3f cores and %.0f bytes, and runs since %.0f", cores, second.memory, second.started)
		}
		for _, name := range []string{"node_cpu_usage_seconds_total", "node_memory_working_set_bytes", "pod_cpu_usage_seconds_total", "pod_memory_working_set_bytes"} {
			if page[name] == nil {
				t.Errorf("/metrics/resource has no %s", name)
			}
		}
		if failed := page["resource_scrape_error"]; failed == nil || failed.Metric[0].GetGauge().GetValue() != 0 {
			t.Errorf("it says that it failed: %v", failed)
		}
		return nil
	})

	for path, want := range map[string][]string{
		"/metrics": {
			"kubelet_running_pods", "kubelet_node_name", "kubelet_runtime_operations_total", "kubelet_http_requests_total", "berth_pod_start_phase_seconds",
			"kubelet_node_startup_registration_duration_seconds", "kubelet_node_startup_duration_seconds", "kubelet_certificate_manager_server_ttl_seconds",
			"kubelet_container_log_filesystem_used_bytes", "kubelet_image_manager_ensure_image_requests_total", "kubelet_imagemanager_ondisk_pulledrecords",
			"kubelet_orphan_pod_cleaned_volumes", "kubelet_volume_metric_collection_duration_seconds",
		},
		"/metrics/cadvisor": {
			"container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_network_receive_bytes_total", "machine_cpu_cores",
			"container_file_descriptors", "container_sockets", "container_threads_max", "container_ulimits_soft", "container_memory_total_active_file_bytes",
			"container_spec_memory_reservation_limit_bytes",
		},
		"/metrics/probes": {"prober_probe_total", "prober_probe_duration_seconds"},
		"/metrics/slis":   {"kubernetes_healthcheck", "kubernetes_healthchecks_total"},
	} {
		page, err := scrape(t, l, node+path, token)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, name := range want {
			if page[name] == nil {
				t.Errorf("%s has no %s", path, name)
			}
		}
	}
}
