package render

import (
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"berth/internal/lib/pod"
)

// The cgroups of pods are in a tree by QoS class. These are names: the cgroup driver decides on paths.
//
//	<root>/pod<uid>             Guaranteed
//	<root>/burstable/pod<uid>
//	<root>/besteffort/pod<uid>
const (
	burstableDir  = "burstable"
	bestEffortDir = "besteffort"
)

// Cgroup is a cgroup with its limits: for all containers of a pod together, or for
// all pods. Zero means no limit.
type Cgroup struct {
	Name          string
	Shares        int64 // CPU shares, as of cgroup v1
	Quota, Period int64 // of CPU time, in microseconds
	Memory        int64 // bytes
	Pids          int64
	CPUs          string // the processors that may be used, as a list such as 0-1,4; empty: those of the parent
	// HugePages are limits in bytes by page size, such as 2MB. The limit of other page sizes is 0.
	HugePages map[string]int64
	// ProtectMemory says that MemoryMin and MemoryLow hold, also if they are zero: memory that the kernel never reclaims,
	// and that it reclaims last. Only cgroup v2 has them.
	ProtectMemory        bool
	MemoryMin, MemoryLow int64
}

// Cgroup returns the name of a pod's cgroup.
func (n Node) Cgroup(p *v1.Pod) string {
	name := "pod" + string(p.UID)
	switch pod.QOSClass(p) {
	case v1.PodQOSGuaranteed:
		return filepath.Join(n.CgroupRoot, name)
	case v1.PodQOSBurstable:
		return filepath.Join(n.CgroupRoot, burstableDir, name)
	default:
		return filepath.Join(n.CgroupRoot, bestEffortDir, name)
	}
}

// Cgroups returns all names that the cgroup of a pod can have, one for each QoS class: of a pod that
// is only in the runtime, the QoS class is not known.
func (n Node) Cgroups(uid pod.UID) []string {
	name := "pod" + string(uid)
	return []string{
		filepath.Join(n.CgroupRoot, name),
		filepath.Join(n.CgroupRoot, burstableDir, name),
		filepath.Join(n.CgroupRoot, bestEffortDir, name),
	}
}

// PodCgroup returns the cgroup of a pod with its limits, overhead included. CPU time and
// memory are limited only if the pod has a limit, or each of its containers has.
func PodCgroup(p *v1.Pod, n Node) Cgroup {
	counted := p.DeepCopy() // the helpers may add the overhead in place
	requests := helper.PodRequests(counted, helper.PodResourcesOptions{})
	counted = p.DeepCopy()
	limits := helper.PodLimits(counted, helper.PodResourcesOptions{})
	out := Cgroup{Name: n.Cgroup(p), Shares: shares(requests[v1.ResourceCPU]), Pids: max(0, n.PodPids), HugePages: hugePageSizes(requests)}
	if pod.QOSClass(p) == v1.PodQOSBestEffort {
		out.Shares = minShares
	}
	if allLimited(p, v1.ResourceCPU) {
		out.Quota, out.Period = quota(limits[v1.ResourceCPU], n)
	}
	if allLimited(p, v1.ResourceMemory) {
		out.Memory = bytes(limits[v1.ResourceMemory])
	}
	if n.MemoryQoS != nil {
		n.MemoryQoS.protect(&out, pod.QOSClass(p), bytes(requests[v1.ResourceMemory]))
	}
	return out
}

func allLimited(p *v1.Pod, name v1.ResourceName) bool {
	if p.Spec.Resources != nil {
		if limit := p.Spec.Resources.Limits[name]; limit.Sign() > 0 {
			return true
		}
	}
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			if limit := containers[i].Resources.Limits[name]; limit.Sign() <= 0 {
				return false
			}
		}
	}
	return true
}

// resourcePIDs is the name of process ids in systemReserved and kubeReserved.
const resourcePIDs v1.ResourceName = "pid"

// AllPods returns the cgroup at root, above the cgroups of all pods. It is limited to the capacity
// of the machine minus the reserved resources. CPU is a share, not a limit: pods may use idle CPU time.
func AllPods(root string, has, reserved v1.ResourceList) (Cgroup, error) {
	left := func(name v1.ResourceName) resource.Quantity {
		q := has[name].DeepCopy()
		q.Sub(reserved[name])
		return q
	}
	for _, name := range []v1.ResourceName{v1.ResourceMemory, resourcePIDs} {
		if q := left(name); q.Sign() <= 0 {
			all, kept := has[name], reserved[name]
			return Cgroup{}, fmt.Errorf("of %s, %s are reserved and there are %s: nothing is left for pods", name, &kept, &all)
		}
	}
	return Cgroup{
		Name: root, Shares: shares(left(v1.ResourceCPU)), Memory: bytes(left(v1.ResourceMemory)), Pids: bytes(left(resourcePIDs)),
		HugePages: hugePageSizes(has),
	}, nil
}

// ReservedCgroup is the cgroup of daemons, limited to what is reserved for them; zero stays as it is. Only the share of
// processors can be taken from a process without ending it: the others are left out if compressible is set.
func ReservedCgroup(name string, reserved v1.ResourceList, compressible bool) Cgroup {
	out := Cgroup{Name: name}
	if cpu, ok := reserved[v1.ResourceCPU]; ok {
		out.Shares = shares(cpu)
	}
	if !compressible {
		out.Memory, out.Pids = bytes(reserved[v1.ResourceMemory]), bytes(reserved[resourcePIDs])
	}
	return out
}
