package render

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// namespaces renders the namespaces of a pod: which of the host's it shares, and its user namespace.
func namespaces(p *v1.Pod, ids IDs) (*runtimeapi.NamespaceOption, error) {
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
	if OwnUsers(p) {
		if p.Spec.HostNetwork || p.Spec.HostPID || p.Spec.HostIPC {
			return nil, errors.New("hostUsers: false can't be had together with hostNetwork, hostPID or hostIPC")
		}
		if ids.Count == 0 {
			return nil, errors.New("hostUsers: false needs a range of ids, and the pod was given none")
		}
		out.UsernsOptions = ids.render()
	}
	return out, nil
}

// OwnUsers reports whether a pod has a user namespace of its own.
func OwnUsers(p *v1.Pod) bool { return p.Spec.HostUsers != nil && !*p.Spec.HostUsers }

// IDs is the range of user and group ids of the host that the user namespace of a pod maps. In
// the pod they begin at 0.
type IDs struct{ First, Count uint32 }

func (i IDs) render() *runtimeapi.UserNamespace {
	mapping := func() []*runtimeapi.IDMapping {
		return []*runtimeapi.IDMapping{{HostId: i.First, ContainerId: 0, Length: i.Count}}
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: mapping(), Gids: mapping()}
}

func privileged(c *v1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

// anyPrivileged reports whether any container of a pod is privileged: runtimes refuse such a container
// in a sandbox that is not.
func anyPrivileged(p *v1.Pod) bool {
	for _, c := range p.Spec.EphemeralContainers {
		if privileged((*v1.Container)(&c.EphemeralContainerCommon)) {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c v1.Container) bool { return privileged(&c) })
}

// maskedPaths and readonlyPaths are the parts of /proc and /sys that containers must not read, or
// not write: they reveal or change settings of the machine.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// security renders the security context of a container. Settings of the container win over
// settings of its pod.
func security(p *v1.Pod, c *v1.Container, r Resolved, n Node) (*runtimeapi.LinuxContainerSecurityContext, error) {
	namespaces, err := namespaces(p, r.IDs)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: namespaces, Privileged: privileged(c)}
	if r.TargetID != "" {
		out.NamespaceOptions.Pid, out.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, r.TargetID
	}
	pod, own := p.Spec.SecurityContext, c.SecurityContext
	if pod == nil {
		pod = &v1.PodSecurityContext{}
	}
	if own == nil {
		own = &v1.SecurityContext{}
	}
	if !out.Privileged && (own.ProcMount == nil || *own.ProcMount != v1.UnmaskedProcMount) {
		out.MaskedPaths, out.ReadonlyPaths = slices.Concat(maskedPaths, n.MaskedPaths), slices.Clone(readonlyPaths)
	}
	user(out, p, c, r.User)
	out.RunAsGroup = int64Value(runAsGroup(p, c))
	out.SupplementalGroups, out.SupplementalGroupsPolicy = groups(pod)
	out.ReadonlyRootfs = own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem
	out.NoNewPrivs = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	out.Capabilities = capabilities(own.Capabilities)
	out.SelinuxOptions = seLinux(firstSet(own.SELinuxOptions, pod.SELinuxOptions))
	if out.Seccomp, err = seccomp(firstSet(own.SeccompProfile, pod.SeccompProfile), n); err != nil {
		return nil, err
	}
	out.Apparmor, err = appArmor(firstSet(own.AppArmorProfile, pod.AppArmorProfile))
	return out, err
}

func firstSet[T any](values ...*T) *T {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

func capabilities(c *v1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, add := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(add))
	}
	for _, drop := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(drop))
	}
	return out
}

func seLinux(o *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

func sandboxSELinux(p *v1.Pod) *runtimeapi.SELinuxOption {
	if p.Spec.SecurityContext == nil {
		return nil
	}
	return seLinux(p.Spec.SecurityContext.SELinuxOptions)
}

func seccomp(profile *v1.SeccompProfile, n Node) (*runtimeapi.SecurityProfile, error) {
	kind := v1.SeccompProfileTypeUnconfined
	switch {
	case profile != nil:
		kind = profile.Type
	case n.SeccompDefault:
		kind = v1.SeccompProfileTypeRuntimeDefault
	}
	switch kind {
	case v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case v1.SeccompProfileTypeLocalhost:
		name := profile.LocalhostProfile
		if name == nil || *name == "" {
			return nil, errors.New("a seccompProfile of type Localhost needs a localhostProfile")
		}
		if !filepath.IsLocal(*name) {
			return nil, fmt.Errorf("seccompProfile %q is not a path below %s", *name, n.SeccompDir)
		}
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: filepath.Join(n.SeccompDir, *name)}, nil
	default:
		return nil, fmt.Errorf("a seccompProfile of type %q is not known", kind)
	}
}

func appArmor(profile *v1.AppArmorProfile) (*runtimeapi.SecurityProfile, error) {
	if profile == nil {
		return nil, nil // the default of the runtime
	}
	switch profile.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case v1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile == nil || *profile.LocalhostProfile == "" {
			return nil, errors.New("an appArmorProfile of type Localhost needs a localhostProfile")
		}
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *profile.LocalhostProfile}, nil
	default:
		return nil, fmt.Errorf("an appArmorProfile of type %q is not known", profile.Type)
	}
}

func int64Value(n *int64) *runtimeapi.Int64Value {
	if n == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *n}
}
