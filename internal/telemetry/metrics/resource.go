package metrics

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"berth/internal/telemetry/stats"
)

// resourceFamilies returns the metrics that autoscalers and `kubectl top` read. Each line has the
// time at which it was measured, so that rates are right.
func resourceFamilies(s *stats.Snapshot, err error) []*dto.MetricFamily {
	failed := gauge("resource_scrape_error", "Whether usage could not be read (1) or could (0).")
	if err != nil {
		failed.add(nil, 1, time.Time{})
		return listed(failed)
	}
	failed.add(nil, 0, time.Time{})

	nodeCPU := counter("node_cpu_usage_seconds_total", "CPU time that the node has used, in seconds of one core.")
	nodeMemory := gauge("node_memory_working_set_bytes", "Memory of the node that can't be taken back at once.")
	nodeSwap := gauge("node_swap_usage_bytes", "Swap space of the node that is used.")
	nodeCPU.addSeconds(nil, s.Node.CPU, s.Node.At)
	if s.Node.Memory != nil {
		nodeMemory.add(nil, float64(s.Node.Memory.WorkingSet), s.Node.At)
		nodeSwap.addIf(nil, s.Node.Memory.Swap, s.Node.At)
	}

	podCPU := counter("pod_cpu_usage_seconds_total", "CPU time that a pod has used, in seconds of one core.")
	podMemory := gauge("pod_memory_working_set_bytes", "Memory of a pod that can't be taken back at once.")
	podSwap := gauge("pod_swap_usage_bytes", "Swap space that a pod uses.")
	started := gauge("container_start_time_seconds", "When a container was started, in seconds since 1970.")
	cpu := counter("container_cpu_usage_seconds_total", "CPU time that a container has used, in seconds of one core.")
	memory := gauge("container_memory_working_set_bytes", "Memory of a container that can't be taken back at once.")
	swap := gauge("container_swap_usage_bytes", "Swap space that a container uses.")
	swapLimit := gauge("container_swap_limit_bytes", "Swap space that a container may use.")
	for i := range s.Pods {
		p := &s.Pods[i]
		labels := labelled("namespace", p.Namespace, "pod", p.Name)
		podCPU.addSeconds(labels, p.CPU, p.At)
		if p.Memory != nil {
			podMemory.add(labels, float64(p.Memory.WorkingSet), p.At)
			podSwap.addIf(labels, p.Memory.Swap, p.At)
		}
		for j := range p.Containers {
			c := &p.Containers[j]
			labels := labelled("container", c.Name, "namespace", p.Namespace, "pod", p.Name)
			if !c.Started.IsZero() {
				started.add(labels, seconds(c.Started), time.Time{})
			}
			cpu.addSeconds(labels, c.CPU, c.At)
			if c.Memory != nil {
				memory.add(labels, float64(c.Memory.WorkingSet), c.At)
				swap.addIf(labels, c.Memory.Swap, c.At)
				swapLimit.addIf(labels, c.Memory.SwapLimit, c.At)
			}
		}
	}
	return listed(nodeCPU, nodeMemory, nodeSwap, podCPU, podMemory, podSwap, started, cpu, memory, swap, swapLimit, failed)
}
