package config

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"berth/internal/config/features"
	"berth/internal/lib/cgroupname"
)

// Cgroups configures the cgroups of pods and of the daemons of the node.
type Cgroups struct {
	// Driver is the cgroup driver for a runtime that does not say which one it has. Empty: cgroupfs. A runtime that says
	// it is followed, as by the kubelet.
	Driver cgroupname.Driver
	// KubeReserved and SystemReserved limit the cgroups of the daemons of Kubernetes and of the machine.
	KubeReserved, SystemReserved ReservedCgroup
	// ReservedCPUs are the processors that pods can't request, as a list such as 0-1,4. Empty: any.
	ReservedCPUs string
	// KubeletCgroups is the path of the cgroup that the agent moves into. Empty: it stays where it was started.
	KubeletCgroups string
	// SystemCgroups is the path of the cgroup for processes of the machine that are in none. Empty: they stay there.
	SystemCgroups string
	// LimitedSwap says that containers of Burstable pods may use a part of the swap. Without it, no container may.
	LimitedSwap bool
	MemoryQoS   *MemoryQoS // nil: memory is limited, and neither protected nor slowed down
	// RuntimeCgroups is the path of the cgroup of the container runtime, whose usage is shown. Empty: it is not.
	RuntimeCgroups string
}

// ReservedCgroup is a cgroup that exists before the agent starts, and is limited to what is reserved for it.
type ReservedCgroup struct {
	// Cgroup is a path, or a slice where the driver is systemd. Empty: there is none.
	Cgroup string
	// Enforce says which limits are set: all, only that of processors, or none.
	Enforce   Enforcement
	Resources v1.ResourceList
}

// MemoryQoS protects memory that is requested, and slows down containers that near their limit.
type MemoryQoS struct {
	ThrottlingFactor float64 // part of the memory between request and limit that a container has at full speed
	Tiered           bool    // requested memory is protected, by the QoS class of the pod
}

const (
	defaultThrottlingFactor = 0.9
	noSwap, limitedSwap     = "NoSwap", "LimitedSwap"
	memoryQoSGate           = "MemoryQoS"
)

// Enforcement says which limits of a reserved cgroup are set.
type Enforcement string

const (
	EnforceNothing      Enforcement = ""
	EnforceAll          Enforcement = "all"
	EnforceCompressible Enforcement = "compressible" // what can be taken away from a process without ending it
)

// The values of enforceNodeAllocatable.
const (
	enforcePods               = "pods"
	enforceNone               = "none"
	enforceKube               = "kube-reserved"
	enforceKubeCompressible   = "kube-reserved-compressible"
	enforceSystem             = "system-reserved"
	enforceSystemCompressible = "system-reserved-compressible"
)

func (l *loader) cgroups(k *kubeletconfig.KubeletConfiguration) Cgroups {
	out := Cgroups{
		ReservedCPUs: k.ReservedSystemCPUs, KubeletCgroups: l.daemonCgroup("kubeletCgroups", k.KubeletCgroups),
		SystemCgroups: l.daemonCgroup("systemCgroups", k.SystemCgroups),
	}
	if k.CgroupDriver != "" {
		var err error
		if out.Driver, err = cgroupname.Parse(k.CgroupDriver); err != nil {
			l.fail("cgroupDriver", k.CgroupDriver, "want %s or %s", cgroupname.Cgroupfs, cgroupname.Systemd)
		}
	}
	switch behavior := k.MemorySwap.SwapBehavior; behavior {
	case "", noSwap:
	case limitedSwap:
		out.LimitedSwap = true
	default:
		l.fail("memorySwap.swapBehavior", behavior, "want %s or %s", noSwap, limitedSwap)
	}
	out.MemoryQoS = l.memoryQoS(k)
	l.reserveCPUs(k)
	out.KubeReserved = ReservedCgroup{
		Cgroup: k.KubeReservedCgroup, Enforce: enforcement(k.EnforceNodeAllocatable, enforceKube, enforceKubeCompressible), Resources: l.resources("kubeReserved", k.KubeReserved),
	}
	out.SystemReserved = ReservedCgroup{
		Cgroup: k.SystemReservedCgroup, Enforce: enforcement(k.EnforceNodeAllocatable, enforceSystem, enforceSystemCompressible), Resources: l.resources("systemReserved", k.SystemReserved),
	}
	l.checkEnforcement(k)
	return out
}

// memoryQoS reads the settings of the feature gate MemoryQoS, which is off by default.
func (l *loader) memoryQoS(k *kubeletconfig.KubeletConfiguration) *MemoryQoS {
	out := &MemoryQoS{ThrottlingFactor: defaultThrottlingFactor, Tiered: k.MemoryReservationPolicy == kubeletconfig.TieredReservationMemoryReservationPolicy}
	if k.MemoryThrottlingFactor != nil {
		out.ThrottlingFactor = *k.MemoryThrottlingFactor
		if out.ThrottlingFactor <= 0 || out.ThrottlingFactor > 1 {
			l.fail("memoryThrottlingFactor", fmt.Sprint(out.ThrottlingFactor), "must be greater than 0 and not greater than 1")
		}
	}
	switch k.MemoryReservationPolicy {
	case "", kubeletconfig.NoneMemoryReservationPolicy, kubeletconfig.TieredReservationMemoryReservationPolicy:
	default:
		l.fail("memoryReservationPolicy", string(k.MemoryReservationPolicy), "want %s or %s", kubeletconfig.NoneMemoryReservationPolicy, kubeletconfig.TieredReservationMemoryReservationPolicy)
	}
	gates, _ := features.New(k.FeatureGates) // a kubelet with gates that are not known does not start
	if gates.Enabled(memoryQoSGate) {
		return out
	}
	if out.Tiered {
		l.fail("memoryReservationPolicy", string(k.MemoryReservationPolicy), "needs the feature gate %s", memoryQoSGate)
	}
	return nil
}

// daemonCgroup checks the path of a cgroup for daemons.
func (l *loader) daemonCgroup(setting, value string) string {
	if value == "/" || strings.Contains(value, "..") {
		l.fail(setting, value, "want the path of a cgroup below the top")
	}
	if value == "" {
		return ""
	}
	return path.Clean("/" + value)
}

// reserveCPUs replaces the amount of reserved processors by the number of those that are named, as the kubelet does.
func (l *loader) reserveCPUs(k *kubeletconfig.KubeletConfiguration) {
	const setting = "reservedSystemCPUs"
	if k.ReservedSystemCPUs == "" {
		return
	}
	cpus, err := cpuset.Parse(k.ReservedSystemCPUs)
	if err != nil {
		l.fail(setting, k.ReservedSystemCPUs, "not a list of processors: want something like 0-1,4: %v", err)
		return
	}
	if k.SystemReservedCgroup != "" || k.KubeReservedCgroup != "" {
		l.fail(setting, k.ReservedSystemCPUs, "can't be used with systemReservedCgroup or kubeReservedCgroup")
	}
	if cpus.Size() == 0 {
		return
	}
	delete(k.KubeReserved, string(v1.ResourceCPU))
	if k.SystemReserved == nil {
		k.SystemReserved = map[string]string{}
	}
	k.SystemReserved[string(v1.ResourceCPU)] = strconv.Itoa(cpus.Size())
}

func enforcement(enforced []string, all, compressible string) Enforcement {
	switch {
	case slices.Contains(enforced, all):
		return EnforceAll
	case slices.Contains(enforced, compressible):
		return EnforceCompressible
	default:
		return EnforceNothing
	}
}

// checkEnforcement refuses what the kubelet refuses in enforceNodeAllocatable.
func (l *loader) checkEnforcement(k *kubeletconfig.KubeletConfiguration) {
	const setting = "enforceNodeAllocatable"
	enforced := k.EnforceNodeAllocatable
	needs := map[string]struct{ cgroup, field, other string }{
		enforceKube:               {k.KubeReservedCgroup, "kubeReservedCgroup", enforceKubeCompressible},
		enforceKubeCompressible:   {k.KubeReservedCgroup, "kubeReservedCgroup", ""},
		enforceSystem:             {k.SystemReservedCgroup, "systemReservedCgroup", enforceSystemCompressible},
		enforceSystemCompressible: {k.SystemReservedCgroup, "systemReservedCgroup", ""},
	}
	for i, name := range enforced {
		need, reserved := needs[name]
		switch {
		case slices.Contains(enforced[:i], name):
			l.fail(setting, name, "is listed twice")
		case name == enforceNone && len(enforced) > 1:
			l.fail(setting, name, "leave out the others, or none itself")
		case name == enforcePods || name == enforceNone:
		case !reserved:
			l.fail(setting, name, "want pods, system-reserved, system-reserved-compressible, kube-reserved, kube-reserved-compressible or none")
		case need.cgroup == "":
			l.fail(setting, name, "set %s, too: the cgroup whose limits are meant", need.field)
		case need.other != "" && slices.Contains(enforced, need.other):
			l.fail(setting, name, "can't be used with %s", need.other)
		}
	}
}

// enforcements returns the values of enforceNodeAllocatable that are in force.
func (c Cgroups) enforcements(pods bool) []string {
	var out []string
	if pods {
		out = append(out, enforcePods)
	}
	names := map[Enforcement][2]string{EnforceAll: {enforceKube, enforceSystem}, EnforceCompressible: {enforceKubeCompressible, enforceSystemCompressible}}
	out = append(out, names[c.KubeReserved.Enforce][0], names[c.SystemReserved.Enforce][1])
	out = slices.DeleteFunc(out, func(s string) bool { return s == "" })
	if len(out) == 0 {
		return []string{enforceNone}
	}
	slices.Sort(out)
	return out
}

func (r ReservedCgroup) amounts() map[string]string {
	if len(r.Resources) == 0 {
		return nil
	}
	out := map[string]string{}
	for name, amount := range r.Resources {
		out[string(name)] = amount.String()
	}
	return out
}

func (c Cgroups) writeTo(k *kubeletconfig.KubeletConfiguration) {
	k.CgroupDriver = string(c.Driver)
	k.MemorySwap.SwapBehavior = noSwap
	if c.LimitedSwap {
		k.MemorySwap.SwapBehavior = limitedSwap
	}
	if q := c.MemoryQoS; q != nil {
		k.FeatureGates = map[string]bool{memoryQoSGate: true}
		k.MemoryThrottlingFactor, k.MemoryReservationPolicy = &q.ThrottlingFactor, kubeletconfig.NoneMemoryReservationPolicy
		if q.Tiered {
			k.MemoryReservationPolicy = kubeletconfig.TieredReservationMemoryReservationPolicy
		}
	}
	k.KubeReservedCgroup, k.SystemReservedCgroup = c.KubeReserved.Cgroup, c.SystemReserved.Cgroup
	k.KubeReserved, k.SystemReserved = c.KubeReserved.amounts(), c.SystemReserved.amounts()
	k.ReservedSystemCPUs, k.KubeletCgroups, k.SystemCgroups = c.ReservedCPUs, c.KubeletCgroups, c.SystemCgroups
}
