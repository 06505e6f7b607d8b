package render

import (
	"strconv"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// MemoryQoS protects the memory that containers request, and slows down those that near their limit. Only cgroup v2 can.
type MemoryQoS struct {
	// ThrottlingFactor is the part of the memory between request and limit after which a container is slowed down.
	ThrottlingFactor float64
	// Tiered keeps the requested memory from being reclaimed: of Guaranteed pods never, of Burstable ones if it can be
	// had elsewhere.
	Tiered bool
}

// kernelPage is the unit of memory.high.
const kernelPage = 4096

// memoryFiles are the files of cgroup v2 by which the memory of a container is protected and slowed down.
func (q MemoryQoS) memoryFiles(p *v1.Pod, c *v1.Container, n Node) map[string]string {
	request, limit := bytes(c.Resources.Requests[v1.ResourceMemory]), bytes(c.Resources.Limits[v1.ResourceMemory])
	out := map[string]string{}
	switch {
	case !q.Tiered || request == 0:
		out["memory.min"], out["memory.low"] = "0", "0"
	case pod.QOSClass(p) == v1.PodQOSGuaranteed:
		out["memory.min"] = strconv.FormatInt(request, 10)
	default:
		out["memory.low"] = strconv.FormatInt(request, 10)
	}
	if request == limit { // it has all of its memory from the start, or asks for none
		return out
	}
	if limit == 0 {
		limit = n.AllocatableMemory
	}
	high := int64((float64(request)+float64(limit-request)*q.ThrottlingFactor)/kernelPage) * kernelPage
	if high > request {
		out["memory.high"] = strconv.FormatInt(high, 10)
	}
	return out
}

// protect sets the memory of a pod's cgroup that is not reclaimed.
func (q MemoryQoS) protect(c *Cgroup, class v1.PodQOSClass, request int64) {
	c.ProtectMemory = true
	switch {
	case !q.Tiered:
	case class == v1.PodQOSGuaranteed:
		c.MemoryMin = request
	default:
		c.MemoryLow = request
	}
}

// swapLimit is the amount of swap that a container may use, in bytes. With LimitedSwap, containers of Burstable pods have the
// part of it that their memory request is of all memory; none have those that would suffer most from it: critical
// pods, and containers whose memory is all theirs.
func swapLimit(p *v1.Pod, c *v1.Container, n Node) int64 {
	requested, limited := c.Resources.Requests[v1.ResourceMemory], c.Resources.Limits[v1.ResourceMemory]
	request := bytes(requested)
	if !n.LimitedSwap || n.Memory <= 0 || pod.IsCritical(p) || pod.QOSClass(p) != v1.PodQOSBurstable || requested.Cmp(limited) == 0 || request > n.Memory {
		return 0
	}
	return int64(float64(request) / float64(n.Memory) * float64(n.Swap))
}
