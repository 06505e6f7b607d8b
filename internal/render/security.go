package render

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func namespaces(p *v1.Pod) *runtimeapi.NamespaceOption {
	out := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if p.Spec.ShareProcessNamespace != nil && *p.Spec.ShareProcessNamespace {
		out.Pid = runtimeapi.NamespaceMode_POD
	}
	if p.Spec.HostNetwork {
		out.Network = runtimeapi.NamespaceMode_NODE
	}
	if p.Spec.HostPID {
		out.Pid = runtimeapi.NamespaceMode_NODE
	}
	if p.Spec.HostIPC {
		out.Ipc = runtimeapi.NamespaceMode_NODE
	}
	return out
}

func privileged(c *v1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

func anyPrivileged(p *v1.Pod) bool {
	for i := range p.Spec.Containers {
		if privileged(&p.Spec.Containers[i]) {
			return true
		}
	}
	return false
}

// maskedPaths and readonlyPaths are the parts of /proc and /sys that tell or
// change too much about the machine.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// security renders who a container is and what it may do. What the container
// says wins over what its pod says.
func security(p *v1.Pod, c *v1.Container, targetID string) *runtimeapi.LinuxContainerSecurityContext {
	out := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: namespaces(p),
		Privileged:       privileged(c),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
	}
	if targetID != "" {
		out.NamespaceOptions.Pid, out.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, targetID
	}
	if !out.Privileged {
		out.MaskedPaths, out.ReadonlyPaths = slices.Clone(maskedPaths), slices.Clone(readonlyPaths)
	}
	if s := p.Spec.SecurityContext; s != nil {
		out.RunAsUser, out.RunAsGroup = number(s.RunAsUser), number(s.RunAsGroup)
		out.SupplementalGroups = slices.Clone(s.SupplementalGroups)
		if s.FSGroup != nil { // or it could not use what its volumes hold
			out.SupplementalGroups = append(out.SupplementalGroups, *s.FSGroup)
		}
		seccomp(out, s.SeccompProfile)
	}
	s := c.SecurityContext
	if s == nil {
		return out
	}
	if s.RunAsUser != nil {
		out.RunAsUser = number(s.RunAsUser)
	}
	if s.RunAsGroup != nil {
		out.RunAsGroup = number(s.RunAsGroup)
	}
	if s.ReadOnlyRootFilesystem != nil {
		out.ReadonlyRootfs = *s.ReadOnlyRootFilesystem
	}
	if s.AllowPrivilegeEscalation != nil {
		out.NoNewPrivs = !*s.AllowPrivilegeEscalation
	}
	if s.Capabilities != nil {
		out.Capabilities = &runtimeapi.Capability{}
		for _, add := range s.Capabilities.Add {
			out.Capabilities.AddCapabilities = append(out.Capabilities.AddCapabilities, string(add))
		}
		for _, drop := range s.Capabilities.Drop {
			out.Capabilities.DropCapabilities = append(out.Capabilities.DropCapabilities, string(drop))
		}
	}
	seccomp(out, s.SeccompProfile)
	return out
}

func seccomp(out *runtimeapi.LinuxContainerSecurityContext, profile *v1.SeccompProfile) {
	if profile == nil {
		return
	}
	switch profile.Type {
	case v1.SeccompProfileTypeRuntimeDefault:
		out.Seccomp = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	case v1.SeccompProfileTypeUnconfined:
		out.Seccomp = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	}
}

func number(n *int64) *runtimeapi.Int64Value {
	if n == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *n}
}

// The kernel counts a processor as 1024 shares, and time in microseconds of a period.
const (
	milliPerCPU  = 1000
	sharesPerCPU = 1024
	minShares    = 2
	quotaPeriod  = 100_000
	minQuota     = 1000
)

// resources renders what a container is promised and what it may use at most.
// Zero means no limit.
func resources(c *v1.Container) *runtimeapi.LinuxContainerResources {
	out := &runtimeapi.LinuxContainerResources{
		CpuShares:          max(minShares, c.Resources.Requests.Cpu().MilliValue()*sharesPerCPU/milliPerCPU),
		MemoryLimitInBytes: c.Resources.Limits.Memory().Value(),
	}
	if cpu := c.Resources.Limits.Cpu().MilliValue(); cpu > 0 {
		out.CpuPeriod = quotaPeriod
		out.CpuQuota = max(minQuota, cpu*quotaPeriod/milliPerCPU)
	}
	return out
}
