package kubelet

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"
)

// Values of enforceNodeAllocatable.
const (
	enforcePods               = "pods"
	enforceNone               = "none"
	enforceSystem             = "system-reserved"
	enforceSystemCompressible = "system-reserved-compressible"
	enforceKube               = "kube-reserved"
	enforceKubeCompressible   = "kube-reserved-compressible"
)

func (v *validator) enforcement(k *kubeletconfig.KubeletConfiguration) {
	const path = "enforceNodeAllocatable"
	given := k.EnforceNodeAllocatable
	for _, pair := range [][2]string{{enforceSystem, enforceSystemCompressible}, {enforceKube, enforceKubeCompressible}} {
		v.want(!slices.Contains(given, pair[0]) || !slices.Contains(given, pair[1]), path, "can't have both %s and %s", pair[0], pair[1])
	}
	seen := map[string]bool{}
	for _, word := range given {
		v.want(!seen[word], path, "has %s twice", word)
		seen[word] = true
		switch word {
		case enforcePods:
		case enforceSystem, enforceSystemCompressible:
			v.want(k.SystemReservedCgroup != "", "systemReservedCgroup", "must be specified for %s in enforceNodeAllocatable", word)
		case enforceKube, enforceKubeCompressible:
			v.want(k.KubeReservedCgroup != "", "kubeReservedCgroup", "must be specified for %s in enforceNodeAllocatable", word)
		case enforceNone:
			v.want(len(given) == 1, path, "can't have others beside %s", enforceNone)
			continue
		default:
			v.oneOf(path, word, enforcePods, enforceSystem, enforceSystemCompressible, enforceKube, enforceKubeCompressible, enforceNone)
			continue
		}
		v.want(*k.CgroupsPerQOS, "cgroupsPerQOS", "must be true for %s in enforceNodeAllocatable", word)
	}
}

func (v *validator) resources(k *kubeletconfig.KubeletConfiguration) {
	v.want(k.SystemCgroups == "" || k.CgroupRoot != "", "systemCgroups", "requires cgroupRoot")
	v.oneOf("topologyManagerPolicy", k.TopologyManagerPolicy, kubeletconfig.NoneTopologyManagerPolicy, kubeletconfig.BestEffortTopologyManagerPolicy,
		kubeletconfig.RestrictedTopologyManagerPolicy, kubeletconfig.SingleNumaNodeTopologyManagerPolicy)
	v.oneOf("topologyManagerScope", k.TopologyManagerScope, kubeletconfig.ContainerTopologyManagerScope, kubeletconfig.PodTopologyManagerScope)
	v.oneOf("memorySwap.swapBehavior", k.MemorySwap.SwapBehavior, "", "NoSwap", "LimitedSwap")
	v.needsGate(k.MemorySwap.SwapBehavior != "", "memorySwap.swapBehavior", "NodeSwap")
	v.oneOf("memoryReservationPolicy", string(k.MemoryReservationPolicy), string(kubeletconfig.NoneMemoryReservationPolicy), string(kubeletconfig.TieredReservationMemoryReservationPolicy))
	v.needsGate(k.MemoryReservationPolicy == kubeletconfig.TieredReservationMemoryReservationPolicy, "memoryReservationPolicy", "MemoryQoS")
	if k.ReservedSystemCPUs != "" {
		v.want(k.SystemReservedCgroup == "" && k.KubeReservedCgroup == "", "reservedSystemCPUs", "can't be used with systemReservedCgroup or kubeReservedCgroup")
		_, err := cpuset.Parse(k.ReservedSystemCPUs)
		v.want(err == nil, "reservedSystemCPUs", "%q is not a list of processors such as 0-1,4", k.ReservedSystemCPUs)
	}
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
