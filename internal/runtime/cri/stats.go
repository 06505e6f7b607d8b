package cri

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// In the types below a nil number was not measured, and a zero time means that no number
// of that struct was.

// PodStats is the usage of one pod.
type PodStats struct {
	UID             pod.UID
	Namespace, Name string
	SandboxID       string

	CPU        CPU
	Memory     Memory
	Network    Network
	Processes  *uint64 // in all of its containers
	Containers []ContainerStats
}

// ContainerStats is the usage of one container.
type ContainerStats struct {
	ID, Name string

	CPU      CPU
	Memory   Memory
	Swap     Swap
	Writable Filesystem // its writable layer
}

// CPU is the CPU time that was used.
type CPU struct {
	At    time.Time
	Total *uint64 // nanoseconds of one core since the start
	Rate  *uint64 // nanoseconds of one core per second, as of late
}

// Memory is the usage of memory, in bytes.
type Memory struct {
	At              time.Time
	WorkingSet      *uint64 // without memory that the kernel can reclaim easily
	Available       *uint64 // of the limit; nil also if there is none
	Usage           *uint64 // all, caches included
	RSS             *uint64
	PageFaults      *uint64
	MajorPageFaults *uint64
}

// Swap is the usage of swap, in bytes.
type Swap struct {
	At              time.Time
	Used, Available *uint64
}

// Network is the traffic of a pod, by interface.
type Network struct {
	At         time.Time
	Default    *Interface // nil: there is none, as on the network of the host
	Interfaces []Interface
}

// Interface is the traffic of one network interface of a pod.
type Interface struct {
	Name              string
	RxBytes, RxErrors *uint64
	TxBytes, TxErrors *uint64
}

// Stats reads the usage of all pods. Sandboxes without a pod's label are left out.
func (c *Client) Stats(ctx context.Context) ([]PodStats, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{})
	if err != nil {
		return nil, fmt.Errorf("read the usage of pods: %w", err)
	}
	var out []PodStats
	for _, s := range r.GetStats() {
		if stats := podStats(s); stats.UID != "" {
			out = append(out, stats)
		}
	}
	slices.SortFunc(out, func(a, b PodStats) int { return strings.Compare(a.SandboxID, b.SandboxID) })
	return out, nil
}

// ContainerStats reads the usage of one container.
func (c *Client) ContainerStats(ctx context.Context, id string) (ContainerStats, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
	if err != nil {
		return ContainerStats{}, fmt.Errorf("read the usage of container %s: %w", id, err)
	}
	return containerStats(r.GetStats()), nil
}

func podStats(s *runtimeapi.PodSandboxStats) PodStats {
	about, linux := s.GetAttributes(), s.GetLinux()
	out := PodStats{
		UID:       pod.UID(about.GetLabels()[pod.LabelPodUID]),
		Namespace: about.GetLabels()[pod.LabelPodNamespace],
		Name:      about.GetLabels()[pod.LabelPodName],
		SandboxID: about.GetId(),
		CPU:       cpu(linux.GetCpu()),
		Memory:    memory(linux.GetMemory()),
		Network:   network(linux.GetNetwork()),
		Processes: value(linux.GetProcess().GetProcessCount()),
	}
	for _, c := range linux.GetContainers() {
		out.Containers = append(out.Containers, containerStats(c))
	}
	return out
}

func containerStats(s *runtimeapi.ContainerStats) ContainerStats {
	about := s.GetAttributes()
	return ContainerStats{
		ID:     about.GetId(),
		Name:   about.GetLabels()[pod.LabelContainerName],
		CPU:    cpu(s.GetCpu()),
		Memory: memory(s.GetMemory()),
		Swap: Swap{
			At: timeOf(s.GetSwap().GetTimestamp()), Used: value(s.GetSwap().GetSwapUsageBytes()),
			Available: value(s.GetSwap().GetSwapAvailableBytes()),
		},
		Writable: filesystem(s.GetWritableLayer()),
	}
}

func cpu(u *runtimeapi.CpuUsage) CPU {
	return CPU{At: timeOf(u.GetTimestamp()), Total: value(u.GetUsageCoreNanoSeconds()), Rate: value(u.GetUsageNanoCores())}
}

func memory(u *runtimeapi.MemoryUsage) Memory {
	return Memory{
		At:         timeOf(u.GetTimestamp()),
		WorkingSet: value(u.GetWorkingSetBytes()), Available: value(u.GetAvailableBytes()),
		Usage: value(u.GetUsageBytes()), RSS: value(u.GetRssBytes()),
		PageFaults: value(u.GetPageFaults()), MajorPageFaults: value(u.GetMajorPageFaults()),
	}
}

func network(u *runtimeapi.NetworkUsage) Network {
	out := Network{At: timeOf(u.GetTimestamp())}
	if d := u.GetDefaultInterface(); d != nil {
		out.Default = new(netInterface(d))
	}
	for _, i := range u.GetInterfaces() {
		out.Interfaces = append(out.Interfaces, netInterface(i))
	}
	return out
}

func netInterface(i *runtimeapi.NetworkInterfaceUsage) Interface {
	return Interface{
		Name:    i.GetName(),
		RxBytes: value(i.GetRxBytes()), RxErrors: value(i.GetRxErrors()),
		TxBytes: value(i.GetTxBytes()), TxErrors: value(i.GetTxErrors()),
	}
}
