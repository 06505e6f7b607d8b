package render

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// CPU shares and CPU quotas of the kernel: a CPU is 1024 shares, and a quota is in microseconds of
// a period.
const (
	milliPerCPU   = 1000
	sharesPerCPU  = 1024
	minShares     = 2
	maxShares     = 262144
	minQuota      = 1000
	maxMilliCPU   = 1 << 30 // more than any machine has, and small enough for products in int64
	defaultPeriod = 100 * time.Millisecond
)

// resources renders the requests and limits of a container. Zero means no limit. A container
// without a limit has the limit of its pod.
func resources(p *v1.Pod, c *v1.Container, n Node) *runtimeapi.LinuxContainerResources {
	var pod v1.ResourceList
	if p.Spec.Resources != nil {
		pod = p.Spec.Resources.Limits
	}
	request, asked := c.Resources.Requests[v1.ResourceCPU]
	if !asked {
		request = c.Resources.Limits[v1.ResourceCPU]
	}
	out := &runtimeapi.LinuxContainerResources{
		CpuShares:          shares(request),
		MemoryLimitInBytes: cmp.Or(bytes(c.Resources.Limits[v1.ResourceMemory]), bytes(pod[v1.ResourceMemory])),
		OomScoreAdj:        oomScore(p, c, n.Memory),
		HugepageLimits:     hugePages(n.PageSizes, pod, c.Resources.Limits),
	}
	// The limit is of memory and swap together, so that no swap is used. It has no effect
	// without a memory limit; only cgroup v2 can limit swap alone.
	out.MemorySwapLimitInBytes = out.MemoryLimitInBytes
	limit := c.Resources.Limits[v1.ResourceCPU]
	if limit.Sign() <= 0 {
		limit = pod[v1.ResourceCPU]
	}
	out.CpuQuota, out.CpuPeriod = quota(limit, n)
	if n.CgroupV2 { // the OOM killer ends all processes of a container, not one of them
		out.Unified = map[string]string{"memory.oom.group": "1"}
		if n.SwapLimits {
			out.Unified["memory.swap.max"] = strconv.FormatInt(swapLimit(p, c, n), 10)
		}
		if n.MemoryQoS != nil {
			maps.Copy(out.Unified, n.MemoryQoS.memoryFiles(p, c, n))
		}
	}
	return out
}

// milliCPU returns a quantity of CPUs in thousandths, at most maxMilliCPU.
func milliCPU(cpu resource.Quantity) int64 {
	if cpu.CmpInt64(maxMilliCPU/milliPerCPU) > 0 {
		return maxMilliCPU
	}
	return max(0, cpu.MilliValue())
}

func bytes(q resource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt64) > 0 {
		return math.MaxInt64
	}
	return max(0, q.Value())
}

func shares(cpu resource.Quantity) int64 {
	return min(max(minShares, milliCPU(cpu)*sharesPerCPU/milliPerCPU), maxShares)
}

// quota returns the CPU quota of a limit and its period in microseconds, or zeros if there is no
// limit.
func quota(cpu resource.Quantity, n Node) (quota, period int64) {
	if n.NoCPUQuota || cpu.Sign() <= 0 {
		return 0, 0
	}
	period = cmp.Or(n.CPUPeriod, defaultPeriod).Microseconds()
	return max(minQuota, milliCPU(cpu)*period/milliPerCPU), period
}

// hugePages renders the limit of every huge page size of the machine. A container without a limit
// has that of its pod, or else 0.
func hugePages(sizes []string, ofPod, own v1.ResourceList) []*runtimeapi.HugepageLimit {
	limits := hugePageSizes(ofPod)
	maps.Copy(limits, hugePageSizes(own))
	var out []*runtimeapi.HugepageLimit
	for _, size := range sizes {
		out = append(out, &runtimeapi.HugepageLimit{PageSize: size, Limit: uint64(limits[size])})
	}
	return out
}

// PageSizes returns the huge page sizes in a resource list, as the kernel writes them: 2MB, 1GB.
func PageSizes(list v1.ResourceList) []string {
	return slices.Sorted(maps.Keys(hugePageSizes(list)))
}

// hugePageSizes returns the bytes of huge pages in a resource list by page size, as the kernel
// writes it: 2MB, 1GB.
func hugePageSizes(list v1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, amount := range list {
		text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
		size, err := resource.ParseQuantity(text)
		if !ok || err != nil || size.Sign() <= 0 {
			continue
		}
		out[pageSize(size.Value())] += bytes(amount)
	}
	return out
}

func pageSize(size int64) string {
	units := []string{"B", "KB", "MB", "GB"}
	i := 0
	for size >= 1024 && size%1024 == 0 && i < len(units)-1 {
		size, i = size/1024, i+1
	}
	return strconv.FormatInt(size, 10) + units[i]
}

// Values of oom_score_adj. When memory runs out, the kernel kills processes with higher scores
// first.
const (
	oomLast      = -997 // killed last, but for processes of the system
	oomFirst     = 1000
	oomBurstable = 3 // the lowest of Burstable pods: a Guaranteed pod that uses all memory has no higher score
)

// oomScore returns the oom_score_adj of a container: BestEffort pods are killed first, Guaranteed
// ones last. Of Burstable pods, a container that uses more than its request is killed before one
// that does not.
func oomScore(p *v1.Pod, c *v1.Container, capacity int64) int64 {
	if pod.IsCritical(p) && p.Spec.PriorityClassName == systemNodeCritical {
		return oomLast
	}
	switch pod.QOSClass(p) {
	case v1.PodQOSGuaranteed:
		return oomLast
	case v1.PodQOSBestEffort:
		return oomFirst
	}
	if capacity <= 0 {
		return oomFirst - 1
	}
	requested := bytes(c.Resources.Requests[v1.ResourceMemory])
	if isSidecar(p, c) { // the main containers depend on it
		requested = max(requested, smallestMemoryRequest(p))
	}
	requested = min(min(requested, capacity)+min(unassignedMemory(p), capacity), capacity)
	return min(max(oomBurstable, oomFirst-oomFirst*requested/capacity), oomFirst-1)
}

const systemNodeCritical = "system-node-critical"

func isSidecar(p *v1.Pod, c *v1.Container) bool { return pod.IsInit(p, c.Name) && pod.IsSidecar(c) }

// smallestMemoryRequest returns the smallest memory request among the main containers.
func smallestMemoryRequest(p *v1.Pod) int64 {
	least := int64(-1)
	for i := range p.Spec.Containers {
		if m := bytes(p.Spec.Containers[i].Resources.Requests[v1.ResourceMemory]); least < 0 || m < least {
			least = m
		}
	}
	return max(0, least)
}

// unassignedMemory returns the part of the pod's own memory request that its containers do not
// request, divided by their number.
func unassignedMemory(p *v1.Pod) int64 {
	if p.Spec.Resources == nil {
		return 0
	}
	left := bytes(p.Spec.Resources.Requests[v1.ResourceMemory])
	sum := helper.AggregateContainerRequests(p, helper.PodResourcesOptions{})
	if left -= bytes(*sum.Memory()); left <= 0 || len(p.Spec.Containers) == 0 {
		return 0
	}
	sharing := int64(len(p.Spec.Containers))
	for i := range p.Spec.InitContainers {
		if pod.IsSidecar(&p.Spec.InitContainers[i]) {
			sharing++
		}
	}
	return left / sharing
}

// overhead renders the overhead of a pod: resources besides those of its containers, for runtimes
// that run it in a virtual machine.
func overhead(p *v1.Pod, n Node) *runtimeapi.LinuxContainerResources {
	if len(p.Spec.Overhead) == 0 {
		return nil
	}
	return sandboxLimits(p.Spec.Overhead, p.Spec.Overhead, n)
}

// sandboxResources renders the requests and limits of a pod without its overhead. Runtimes that run
// the pod in a virtual machine need them.
func sandboxResources(p *v1.Pod, n Node) *runtimeapi.LinuxContainerResources {
	plain := p.DeepCopy()
	plain.Spec.Overhead = nil
	return sandboxLimits(helper.PodRequests(plain, helper.PodResourcesOptions{}), helper.PodLimits(plain, helper.PodResourcesOptions{}), n)
}

func sandboxLimits(requests, limits v1.ResourceList, n Node) *runtimeapi.LinuxContainerResources {
	out := &runtimeapi.LinuxContainerResources{CpuShares: shares(requests[v1.ResourceCPU]), MemoryLimitInBytes: bytes(limits[v1.ResourceMemory])}
	out.CpuQuota, out.CpuPeriod = quota(limits[v1.ResourceCPU], n)
	return out
}
