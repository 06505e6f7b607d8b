//go:build real

package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/test/real/kit"
)

func TestUsageIsReported(t *testing.T) {
	t.Parallel()
	// given a pod that works, within a tenth of a processor, one that eats memory and
	// one that sleeps
	n := kit.NewNode(t)
	busy := kit.NewPod("busy", "spin")
	busy.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
	busy.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	busy.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	eats := kit.NewPod("eats", "eat", "50")
	eats.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("100Mi")}
	n.Apply("pods.yaml", busy, eats, kit.NewPod("idle", "sleep"))
	n.Start()
	running := n.WaitRunning("busy", "eats", "idle")

	// when stats are requested, then the first uses about as much as it may
	n.Wait("the busy pod to be seen", 30*time.Second, func() string {
		p, err := n.PodUsage("busy")
		if err != nil {
			return err.Error()
		}
		if p.CPU == nil || p.CPU.UsageNanoCores == nil || len(p.Containers) != 1 || p.Containers[0].CPU == nil || p.Containers[0].CPU.UsageNanoCores == nil {
			return fmt.Sprintf("nothing is known of its CPU: %+v", p)
		}
		if rate := *p.Containers[0].CPU.UsageNanoCores; rate < 60e6 || rate > 140e6 {
			return fmt.Sprintf("it uses %d nanocores", rate)
		}
		return ""
	})
	before, err := n.PodUsage("busy")
	if err != nil {
		t.Fatal(err)
	}
	began := before.Containers[0].CPU.Time
	n.Wait("more samples", 30*time.Second, func() string {
		p, err := n.PodUsage("busy")
		if err != nil {
			return err.Error()
		}
		c := p.Containers[0].CPU
		span := c.Time.Sub(began.Time)
		if span < 3*time.Second {
			return "too soon"
		}
		used := time.Duration(*c.UsageCoreNanoSeconds - *before.Containers[0].CPU.UsageCoreNanoSeconds)
		if used < span/20 || used > span*3/20 {
			return fmt.Sprintf("it used %s in %s", used, span)
		}
		return ""
	})
	if before.PodRef.UID != string(running["busy"].UID) || before.StartTime.IsZero() || before.Containers[0].StartTime.IsZero() {
		t.Errorf("the pod is %+v since %s", before.PodRef, before.StartTime)
	}
	if before.Network == nil || before.Network.RxBytes == nil || before.Containers[0].Logs == nil || len(before.VolumeStats) == 0 {
		t.Errorf("its network, logs or volume are not there: %+v", before)
	}

	// and the second holds its memory, of which half is left
	n.Wait("the memory to be seen", 20*time.Second, func() string {
		p, err := n.PodUsage("eats")
		if err != nil {
			return err.Error()
		}
		m := p.Containers[0].Memory
		if m == nil || m.WorkingSetBytes == nil || m.AvailableBytes == nil {
			return "its memory is not known"
		}
		if *m.WorkingSetBytes < 50<<20 || *m.WorkingSetBytes > 70<<20 || *m.AvailableBytes > 50<<20 {
			return fmt.Sprintf("it holds %d, and %d are left", *m.WorkingSetBytes, *m.AvailableBytes)
		}
		return ""
	})
	if p, err := n.PodUsage("idle"); err != nil || *p.Containers[0].CPU.UsageNanoCores > 20e6 {
		t.Errorf("the idle pod: %+v, %v", p.CPU, err)
	}
	mustServeMetrics(n, "busy", "eats", "idle")

	// and a pod that is gone is left out
	n.RemoveManifest("pods.yaml")
	n.WaitGone("busy", "eats", "idle")
	for _, page := range []string{"/metrics/cadvisor", "/metrics/resource"} {
		n.Wait(page+" to forget it", 5*time.Second, func() string { // measurements are cached for a moment
			body, err := n.AgentPage(page)
			if err != nil {
				return err.Error()
			}
			return kit.MissingUnless(!strings.Contains(string(body), "busy-"))
		})
	}
}

// mustServeMetrics reads every page of metrics as Prometheus does, and checks that the pods are in
// them.
func mustServeMetrics(n *kit.Node, pods ...string) {
	n.T.Helper()
	for page, want := range map[string][]string{
		"/metrics":          {"kubelet_running_pods", "berth_pod_start_phase_seconds", "kubelet_runtime_operations_total", "process_resident_memory_bytes", "storage_operation_duration_seconds", "volume_manager_total_volumes", "kubelet_pleg_pod_relist_duration_seconds"},
		"/metrics/resource": {"container_cpu_usage_seconds_total", "pod_memory_working_set_bytes", "node_cpu_usage_seconds_total"},
		"/metrics/cadvisor": {"container_memory_rss", "container_network_receive_bytes_total", "container_cpu_cfs_throttled_periods_total", "container_cpu_user_seconds_total", "container_cpu_system_seconds_total", "container_pressure_cpu_waiting_seconds_total", "machine_memory_bytes"},
		"/metrics/probes":   nil,
		"/metrics/slis":     nil,
	} {
		began := time.Now()
		body, err := n.AgentPage(page)
		if err != nil {
			n.T.Error(err)
			continue
		}
		n.T.Logf("%s: %d bytes in %s", page, len(body), time.Since(began).Round(time.Millisecond))
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
		if err != nil {
			n.T.Errorf("%s: %v", page, err)
		}
		for _, name := range want {
			if families[name] == nil {
				n.T.Errorf("%s has no %s", page, name)
			}
			for _, m := range families[name].GetMetric() {
				if m.Histogram != nil && m.Histogram.GetSampleCount() == 0 {
					n.T.Errorf("%s: nothing was counted in %s", page, name)
				}
			}
		}
		for _, pod := range pods {
			if page == "/metrics/resource" && !strings.Contains(string(body), `pod="`+pod+"-"+kit.NodeName+`"`) {
				n.T.Errorf("%s has no pod %s", page, pod)
			}
		}
	}
}
