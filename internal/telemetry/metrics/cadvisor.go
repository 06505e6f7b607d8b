package metrics

import (
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"berth/internal/pods/cgroup"
	"berth/internal/telemetry/stats"
)

// cadvisor is the page of containers, with the labels that dashboards join on. A
// line on a pod as a whole has an empty container; one on its network bears the
// sandbox; one on the node has the id of the root cgroup.
type cadvisor struct {
	at time.Time

	cpu, periods, throttled, throttledTime      *family
	user, system                                *family
	workingSet, usage, rss, cache, mapped, peak *family
	swap, faults, oom                           *family
	kernel, limited, active, inactive           *family
	bursts, burstTime                           *family
	reservation                                 *family
	opened                                      opened
	limit, period, quota, shares                *family
	written, diskLimit, inodes, inodesTotal     *family
	processes, threads, seen, started           *family
	swapLimit                                   *family
	rxBytes, rxPackets, rxErrors, rxDropped     *family
	txBytes, txPackets, txErrors, txDropped     *family
	work                                        work
}

func newCadvisor(at time.Time) *cadvisor {
	return &cadvisor{
		at:            at,
		cpu:           counter("container_cpu_usage_seconds_total", "CPU time that was used, in seconds of one core."),
		user:          counter("container_cpu_user_seconds_total", "CPU time that programs used themselves, in seconds of one core."),
		system:        counter("container_cpu_system_seconds_total", "CPU time that the kernel used for programs, in seconds of one core."),
		periods:       counter("container_cpu_cfs_periods_total", "Periods of the CPU quota that have passed."),
		throttled:     counter("container_cpu_cfs_throttled_periods_total", "Periods in which the CPU quota was used up."),
		throttledTime: counter("container_cpu_cfs_throttled_seconds_total", "Time for which processes were held up by the CPU quota."),

		bursts:    counter("container_cpu_cfs_burst_periods_total", "Periods in which more than the CPU quota was used."),
		burstTime: counter("container_cpu_cfs_burst_seconds_total", "Time that was used beyond the CPU quota."),

		workingSet: gauge("container_memory_working_set_bytes", "Memory that can't be taken back at once."),
		usage:      gauge("container_memory_usage_bytes", "Memory that is used, caches included."),
		rss:        gauge("container_memory_rss", "Anonymous memory in bytes."),
		cache:      gauge("container_memory_cache", "Page cache in bytes."),
		mapped:     gauge("container_memory_mapped_file", "Files that are mapped into memory, in bytes."),
		peak:       gauge("container_memory_max_usage_bytes", "The most memory that was ever used."),
		kernel:     gauge("container_memory_kernel_usage", "Memory that the kernel uses for processes, in bytes."),
		limited:    counter("container_memory_failcnt", "How often the memory limit was reached."),
		active:     gauge("container_memory_total_active_file_bytes", "Page cache that was used lately."),
		inactive:   gauge("container_memory_total_inactive_file_bytes", "Page cache that was not used lately."),
		swap:       gauge("container_memory_swap", "Swap space that is used, in bytes."),
		faults:     counter("container_memory_failures_total", "Page faults."),
		oom:        counter("container_oom_events_total", "Processes that were killed because memory was used up."),

		swapLimit:   gauge("container_spec_memory_swap_limit_bytes", "Swap space that may be used; 0 for no limit."),
		reservation: gauge("container_spec_memory_reservation_limit_bytes", "Memory that is kept for it when memory is short; 0 for none."),
		limit:       gauge("container_spec_memory_limit_bytes", "Memory that may be used; 0 for no limit."),
		period:      gauge("container_spec_cpu_period", "Length of a period of the CPU quota, in microseconds."),
		quota:       gauge("container_spec_cpu_quota", "CPU time that may be used in a period, in microseconds."),
		shares:      gauge("container_spec_cpu_shares", "Weight among others when the CPU is short."),

		written:     gauge("container_fs_usage_bytes", "What the container wrote to its own layer."),
		diskLimit:   gauge("container_fs_limit_bytes", "Size of the file system that this is on."),
		inodes:      gauge("container_fs_inodes_free", "Free inodes of the file system that this is on."),
		inodesTotal: gauge("container_fs_inodes_total", "Inodes of the file system that this is on."),

		processes: gauge("container_processes", "Processes and threads."),
		threads:   gauge("container_threads", "Processes and threads."),
		seen:      gauge("container_last_seen", "When this was measured, in seconds since 1970."),
		started:   gauge("container_start_time_seconds", "When it was started, in seconds since 1970."),

		rxBytes:   counter("container_network_receive_bytes_total", "Bytes that were received."),
		rxPackets: counter("container_network_receive_packets_total", "Packets that were received."),
		rxErrors:  counter("container_network_receive_errors_total", "Errors when receiving."),
		rxDropped: counter("container_network_receive_packets_dropped_total", "Packets that were dropped when receiving."),
		txBytes:   counter("container_network_transmit_bytes_total", "Bytes that were sent."),
		txPackets: counter("container_network_transmit_packets_total", "Packets that were sent."),
		txErrors:  counter("container_network_transmit_errors_total", "Errors when sending."),
		txDropped: counter("container_network_transmit_packets_dropped_total", "Packets that were dropped when sending."),

		opened: newOpened(),
		work:   newWork(),
	}
}

func cadvisorFamilies(s *stats.Snapshot) []*dto.MetricFamily {
	c := newCadvisor(s.At)
	node := labelsOf("/", nil, nil)
	c.addUsage(node, s.Node.Usage)
	c.addProcesses(node, s.Node.Usage, nil)
	c.addWork(node, s.Node.At, s.Node.Detail, s.Node.Disks)
	c.work.addDiskStats(node, s.Node.At, s.Node.DiskStats)
	c.addNetwork(node, s.Node.Network)
	for i := range s.Pods {
		p := &s.Pods[i]
		labels := labelsOf(p.Cgroup, p, nil)
		c.addUsage(labels, p.Usage)
		c.addProcesses(labels, p.Usage, nil)
		if !p.Started.IsZero() {
			c.started.add(labels, seconds(p.Started), time.Time{})
		}
		c.addNetwork(labels, p.Network)
		for j := range p.Containers {
			c.addContainer(p, &p.Containers[j])
		}
	}
	return listed(append(c.all(), machineFamilies(&s.Node)...)...)
}

func machineFamilies(n *stats.Node) []*family {
	cores := gauge("machine_cpu_cores", "Processors of this machine.")
	cores.add(nil, float64(n.Cores), time.Time{})
	physical := gauge("machine_cpu_physical_cores", "Cores of this machine. One with hyper-threading has more processors.")
	sockets := gauge("machine_cpu_sockets", "Sockets of this machine that have a processor.")
	if n.Topology.Sockets > 0 {
		physical.add(nil, float64(n.Topology.PhysicalCores), time.Time{})
		sockets.add(nil, float64(n.Topology.Sockets), time.Time{})
	}
	memory := gauge("machine_memory_bytes", "Memory of this machine.")
	memory.add(nil, float64(n.MemoryTotal), time.Time{})
	swap := gauge("machine_swap_bytes", "Swap space of this machine.")
	swap.addIf(nil, n.SwapTotal, time.Time{})
	return []*family{cores, physical, sockets, memory, swap}
}

func (c *cadvisor) all() []*family {
	return slices.Concat([]*family{
		c.cpu, c.user, c.system, c.periods, c.throttled, c.throttledTime, c.workingSet, c.usage, c.rss, c.cache, c.mapped, c.peak, c.swap, c.faults, c.oom,
		c.limit, c.period, c.quota, c.shares, c.written, c.diskLimit, c.inodes, c.inodesTotal, c.processes, c.threads, c.swapLimit, c.seen, c.started,
		c.rxBytes, c.rxPackets, c.rxErrors, c.rxDropped, c.txBytes, c.txPackets, c.txErrors, c.txDropped,
		c.kernel, c.limited, c.active, c.inactive, c.bursts, c.burstTime, c.reservation,
	}, c.opened.all(), c.work.all())
}

// labelsOf names the node, a pod, or a container.
func labelsOf(id string, p *stats.Pod, c *stats.Container) []label {
	var container, image, name, namespace, pod string
	if p != nil {
		namespace, pod, name = p.Namespace, p.Name, p.SandboxID
	}
	if c != nil {
		container, image, name = c.Name, c.Image, c.ID
	}
	return labelled("container", container, "id", id, "image", image, "name", name, "namespace", namespace, "pod", pod)
}

func (c *cadvisor) addContainer(p *stats.Pod, of *stats.Container) {
	labels := labelsOf(of.Cgroup, p, of)
	c.addUsage(labels, of.Usage)
	c.addProcesses(labels, of.Usage, of.Running)
	c.addDetail(labels, of)
	c.addWork(labels, of.At, of.Detail, of.Disks)
	c.seen.add(labels, seconds(c.at), time.Time{})
	if !of.Started.IsZero() {
		c.started.add(labels, seconds(of.Started), time.Time{})
	}
	if f := of.Writable; f != nil {
		c.written.addIf(labels, f.Used, f.At)
		c.diskLimit.addIf(labels, f.Capacity, f.At)
		c.inodes.addIf(labels, f.InodesFree, f.At)
		c.inodesTotal.addIf(labels, f.Inodes, f.At)
	}
}

func (c *cadvisor) addUsage(labels []label, u stats.Usage) {
	c.cpu.addSeconds(with(labels, "cpu", "total"), u.CPU, u.At)
	m := u.Memory
	if m == nil {
		return
	}
	c.workingSet.add(labels, float64(m.WorkingSet), u.At)
	c.usage.add(labels, float64(m.Usage), u.At)
	c.rss.add(labels, float64(m.RSS), u.At)
	c.cache.add(labels, float64(m.Cache), u.At)
	c.mapped.add(labels, float64(m.Mapped), u.At)
	c.active.add(labels, float64(m.ActiveFile), u.At)
	c.inactive.add(labels, float64(m.InactiveFile), u.At)
	c.swap.addIf(labels, m.Swap, u.At)
	for _, scope := range []string{"container", "hierarchy"} { // cAdvisor has the same numbers for both
		labels := with(labels, "scope", scope)
		c.faults.add(with(labels, "failure_type", "pgfault"), float64(m.PageFaults), u.At)
		c.faults.add(with(labels, "failure_type", "pgmajfault"), float64(m.MajorPageFaults), u.At)
	}
}

func (c *cadvisor) addDetail(labels []label, of *stats.Container) {
	d := of.Detail
	if d.Quota != nil { // without one, nothing is ever throttled
		c.periods.addIf(labels, d.Periods, of.At)
		c.throttled.addIf(labels, d.Throttled, of.At)
		c.throttledTime.addSeconds(labels, d.ThrottledTime, of.At)
		c.bursts.addIf(labels, d.Bursts, of.At)
		c.burstTime.addSeconds(labels, d.BurstTime, of.At)
		c.quota.addIf(labels, d.Quota, time.Time{})
	}
	c.period.addIf(labels, d.Period, time.Time{})
	c.shares.addIf(labels, d.Shares, time.Time{})
	c.oom.addIf(labels, d.OOMKills, of.At)
	c.peak.addIf(labels, d.MemoryPeak, of.At)
	c.kernel.addIf(labels, d.KernelMemory, of.At)
	c.limited.addIf(labels, d.MemoryLimited, of.At)
	if d != (cgroup.Detail{}) {
		c.opened.maxThreads.addOrZero(labels, d.MaxThreads, of.At)
	}
	if of.Memory != nil && (of.Memory.Limit != nil || d != (cgroup.Detail{})) {
		c.limit.addOrZero(labels, of.Memory.Limit, time.Time{})
		c.swapLimit.addOrZero(labels, of.Memory.SwapLimit, time.Time{})
		c.reservation.addOrZero(labels, d.Reservation, time.Time{})
	}
}

func (c *cadvisor) addNetwork(labels []label, n *stats.Network) {
	if n == nil {
		return
	}
	for _, i := range n.Interfaces {
		labels := with(labels, "interface", i.Name)
		for _, line := range []struct {
			f     *family
			value uint64
		}{
			{c.rxBytes, i.RxBytes},
			{c.rxPackets, i.RxPackets},
			{c.rxErrors, i.RxErrors},
			{c.rxDropped, i.RxDropped},
			{c.txBytes, i.TxBytes},
			{c.txPackets, i.TxPackets},
			{c.txErrors, i.TxErrors},
			{c.txDropped, i.TxDropped},
		} {
			line.f.add(labels, float64(line.value), n.At)
		}
	}
}
