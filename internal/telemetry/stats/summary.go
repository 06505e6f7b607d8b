package stats

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/pods/cgroup"
)

// Summary measures, and returns it as the kubelet's Summary API does.
func (r *Reader) Summary(ctx context.Context, onlyCPUAndMemory bool) (*api.Summary, error) {
	scope := Full
	if onlyCPUAndMemory {
		scope = Detailed
	}
	s, err := r.ReadRates(ctx, scope)
	if err != nil {
		return nil, err
	}
	return Summarize(s, onlyCPUAndMemory), nil
}

// Summarize puts a snapshot into the words of the Summary API.
func Summarize(s *Snapshot, onlyCPUAndMemory bool) *api.Summary {
	n := s.Node
	out := &api.Summary{
		Node: api.NodeStats{
			NodeName: n.Name, StartTime: metav1.NewTime(n.Booted), CPU: cpu(n.Usage), Memory: memory(n.Usage), Swap: swap(n.Usage),
		},
		Pods: make([]api.PodStats, 0, len(s.Pods)),
	}
	if out.Node.Memory != nil {
		out.Node.Memory.AvailableBytes = new(n.MemoryTotal - min(n.MemoryTotal, n.Memory.WorkingSet))
	}
	if out.Node.Swap != nil && n.SwapTotal != nil {
		out.Node.Swap.SwapAvailableBytes = new(*n.SwapTotal - min(*n.SwapTotal, *n.Memory.Swap))
	}
	system := func(name string, c *SystemContainer) {
		if c == nil || c.CPU == nil {
			return
		}
		stats := api.ContainerStats{
			Name: name, StartTime: out.Node.StartTime, CPU: cpu(c.Usage), Memory: memory(c.Usage), Swap: swap(c.Usage),
		}
		addPressure(c.Detail, stats.CPU, stats.Memory)
		if !onlyCPUAndMemory {
			stats.IO = ioPressure(c.Usage, c.Detail)
		}
		out.Node.SystemContainers = append(out.Node.SystemContainers, stats)
	}
	system(api.SystemContainerPods, n.Pods)
	system(api.SystemContainerKubelet, n.Agent)
	system(api.SystemContainerRuntime, n.Runtime)
	system(api.SystemContainerMisc, n.System)
	addPressure(n.Detail, out.Node.CPU, out.Node.Memory)
	if !onlyCPUAndMemory {
		out.Node.IO = ioPressure(n.Usage, n.Detail)
		out.Node.Network, out.Node.Fs = network(n.Network), filesystem(n.Root)
		if n.Images != nil || n.Layers != nil {
			out.Node.Runtime = &api.RuntimeStats{ImageFs: filesystem(n.Images), ContainerFs: filesystem(n.Layers)}
		}
		if n.Processes != nil || n.MaxProcesses != nil {
			out.Node.Rlimit = &api.RlimitStats{
				Time: metav1.NewTime(n.At), MaxPID: signed(n.MaxProcesses), NumOfRunningProcesses: signed(n.Processes),
			}
		}
	}
	for i := range s.Pods {
		out.Pods = append(out.Pods, podStats(&s.Pods[i], n.Root, onlyCPUAndMemory))
	}
	return out
}

func podStats(p *Pod, root *Filesystem, onlyCPUAndMemory bool) api.PodStats {
	out := api.PodStats{
		PodRef:    api.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
		StartTime: metav1.NewTime(p.Started),
		CPU:       cpu(p.Usage), Memory: memory(p.Usage), Swap: swap(p.Usage),
		Containers: make([]api.ContainerStats, 0, len(p.Containers)),
	}
	for _, c := range p.Containers {
		stats := api.ContainerStats{
			Name: c.Name, StartTime: metav1.NewTime(c.Started), CPU: cpu(c.Usage), Memory: memory(c.Usage), Swap: swap(c.Usage),
		}
		addPressure(c.Detail, stats.CPU, stats.Memory)
		if !onlyCPUAndMemory {
			stats.IO = ioPressure(c.Usage, c.Detail)
			stats.Rootfs, stats.Logs = filesystem(c.Writable), filesystem(c.Logs)
		}
		out.Containers = append(out.Containers, stats)
	}
	addPressure(p.Detail, out.CPU, out.Memory)
	if onlyCPUAndMemory {
		return out
	}
	out.IO = ioPressure(p.Usage, p.Detail)
	if p.Processes != nil {
		out.ProcessStats = &api.ProcessStats{ProcessCount: p.Processes}
	}
	out.Network = network(p.Network)
	for _, v := range p.Volumes {
		stats := api.VolumeStats{Name: v.Name, FsStats: *filesystem(&v.Filesystem)}
		if v.Claim != "" {
			stats.PVCRef = &api.PVCReference{Name: v.Claim, Namespace: p.Namespace}
		}
		out.VolumeStats = append(out.VolumeStats, stats)
	}
	out.EphemeralStorage = filesystem(p.ephemeral(root))
	return out
}

// ephemeral returns the ephemeral storage that a pod uses: writable layers, logs, and volumes that end
// with the pod.
func (p *Pod) ephemeral(root *Filesystem) *Filesystem {
	if root == nil {
		return nil
	}
	out := *root
	out.Used, out.InodesUsed = new(uint64), new(uint64)
	add := func(f *Filesystem) {
		if f == nil {
			return
		}
		if f.Used != nil {
			*out.Used += *f.Used
		}
		if f.InodesUsed != nil {
			*out.InodesUsed += *f.InodesUsed
		}
	}
	for i := range p.Containers {
		add(p.Containers[i].Writable)
		add(p.Containers[i].Logs)
	}
	for i := range p.Volumes {
		if p.Volumes[i].Disk {
			add(&p.Volumes[i].Filesystem)
		}
	}
	return &out
}

func cpu(u Usage) *api.CPUStats {
	if u.CPU == nil {
		return nil
	}
	return &api.CPUStats{Time: metav1.NewTime(u.At), UsageNanoCores: u.Rate, UsageCoreNanoSeconds: u.CPU}
}

func memory(u Usage) *api.MemoryStats {
	m := u.Memory
	if m == nil {
		return nil
	}
	return &api.MemoryStats{
		Time: metav1.NewTime(u.At), AvailableBytes: left(m), UsageBytes: &m.Usage, WorkingSetBytes: &m.WorkingSet, RSSBytes: &m.RSS,
		PageFaults: &m.PageFaults, MajorPageFaults: &m.MajorPageFaults,
	}
}

// addPressure adds the pressure on CPU and memory to the stats of these, where the kernel counts it.
func addPressure(d cgroup.Detail, cpu *api.CPUStats, memory *api.MemoryStats) {
	if cpu != nil {
		cpu.PSI = psi(d.CPUPressure)
	}
	if memory != nil {
		memory.PSI = psi(d.MemoryPressure)
	}
}

// ioPressure returns the pressure on I/O, or nil where the kernel does not count it.
func ioPressure(u Usage, d cgroup.Detail) *api.IOStats {
	waited := psi(d.IOPressure)
	if waited == nil {
		return nil
	}
	return &api.IOStats{Time: metav1.NewTime(u.At), PSI: waited}
}

func psi(p cgroup.Pressure) *api.PSIStats {
	if p.Some == nil && p.Full == nil {
		return nil
	}
	data := func(total *uint64, share cgroup.PressureShare) api.PSIData {
		if total == nil {
			return api.PSIData{}
		}
		return api.PSIData{Total: *total, Avg10: share.Avg10, Avg60: share.Avg60, Avg300: share.Avg300}
	}
	return &api.PSIStats{Some: data(p.Some, p.SomeShare), Full: data(p.Full, p.FullShare)}
}

func left(m *cgroup.Memory) *uint64 {
	if m.Limit == nil {
		return nil
	}
	return new(*m.Limit - min(*m.Limit, m.WorkingSet))
}

func swap(u Usage) *api.SwapStats {
	if u.Memory == nil || u.Memory.Swap == nil {
		return nil
	}
	out := &api.SwapStats{Time: metav1.NewTime(u.At), SwapUsageBytes: u.Memory.Swap}
	if limit := u.Memory.SwapLimit; limit != nil {
		out.SwapAvailableBytes = new(*limit - min(*limit, *u.Memory.Swap))
	}
	return out
}

func network(n *Network) *api.NetworkStats {
	if n == nil || len(n.Interfaces) == 0 {
		return nil
	}
	out := &api.NetworkStats{Time: metav1.NewTime(n.At)}
	for _, i := range n.Interfaces {
		out.Interfaces = append(out.Interfaces, api.InterfaceStats{
			Name: i.Name, RxBytes: new(i.RxBytes), RxErrors: new(i.RxErrors), TxBytes: new(i.TxBytes), TxErrors: new(i.TxErrors),
		})
	}
	first := slices.IndexFunc(out.Interfaces, func(i api.InterfaceStats) bool { return i.Name == n.Default })
	if first >= 0 {
		out.InterfaceStats = out.Interfaces[first]
	}
	return out
}

func filesystem(f *Filesystem) *api.FsStats {
	if f == nil {
		return nil
	}
	return &api.FsStats{
		Time: metav1.NewTime(f.At), AvailableBytes: f.Available, CapacityBytes: f.Capacity, UsedBytes: f.Used,
		InodesFree: f.InodesFree, Inodes: f.Inodes, InodesUsed: f.InodesUsed,
	}
}

func signed(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}
