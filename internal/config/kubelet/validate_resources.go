package kubelet

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// enforcement checks what enforceNodeAllocatable needs besides its values.
func (v *validator) enforcement(k *kubeletconfig.KubeletConfiguration) {
	none := slices.Equal(k.EnforceNodeAllocatable, []string{"none"})
	v.want(*k.CgroupsPerQOS || none || len(k.EnforceNodeAllocatable) == 0, "cgroupsPerQOS", "must be true for %s in enforceNodeAllocatable", strings.Join(k.EnforceNodeAllocatable, ", "))
}

func (v *validator) resources(k *kubeletconfig.KubeletConfiguration) {
	v.want(k.SystemCgroups == "" || k.CgroupRoot != "", "systemCgroups", "requires cgroupRoot")
	v.oneOf("topologyManagerPolicy", k.TopologyManagerPolicy, kubeletconfig.NoneTopologyManagerPolicy, kubeletconfig.BestEffortTopologyManagerPolicy,
		kubeletconfig.RestrictedTopologyManagerPolicy, kubeletconfig.SingleNumaNodeTopologyManagerPolicy)
	v.oneOf("topologyManagerScope", k.TopologyManagerScope, kubeletconfig.ContainerTopologyManagerScope, kubeletconfig.PodTopologyManagerScope)
	v.needsGate(k.MemorySwap.SwapBehavior != "", "memorySwap.swapBehavior", "NodeSwap")
	type reservation struct {
		node int32
		name v1.ResourceName
	}
	seen := map[reservation]bool{}
	for _, r := range k.ReservedMemory {
		for name, amount := range r.Limits {
			one := reservation{r.NumaNode, name}
			v.want(name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix), "reservedMemory", "of NUMA node %d can be of memory and hugepages-SIZE, not of %s", r.NumaNode, name)
			v.want(!amount.IsZero(), "reservedMemory", "of NUMA node %d is zero for %s", r.NumaNode, name)
			v.want(!seen[one], "reservedMemory", "of NUMA node %d is set twice for %s", r.NumaNode, name)
			seen[one] = true
		}
	}
}

func (v *validator) shutdown(k *kubeletconfig.KubeletConfiguration) {
	all, critical := k.ShutdownGracePeriod.Duration, k.ShutdownGracePeriodCriticalPods.Duration
	v.needsGate(all > 0 || critical > 0, "shutdownGracePeriod", "GracefulNodeShutdown")
	v.needsGate(len(k.ShutdownGracePeriodByPodPriority) > 0, "shutdownGracePeriodByPodPriority", "GracefulNodeShutdownBasedOnPodPriority")
	for path, period := range map[string]time.Duration{"shutdownGracePeriod": all, "shutdownGracePeriodCriticalPods": critical} {
		v.want(period == 0 || period >= time.Second, path, "must be zero, or 1s or more")
	}
}
