package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/node/util/sysctl"
)

// safeSysctls change nothing outside of the pod that sets them: each is kept
// apart by namespaces. The value is the first kernel that does so; empty means that
// every kernel does that berth can run on.
var safeSysctls = map[string]string{
	"kernel.shm_rmid_forced":              "",
	"net.ipv4.ip_local_port_range":        "",
	"net.ipv4.tcp_syncookies":             "",
	"net.ipv4.ping_group_range":           "",
	"net.ipv4.ip_unprivileged_port_start": "",
	"net.ipv4.ip_local_reserved_ports":    "3.16",
	"net.ipv4.tcp_keepalive_time":         "4.5",
	"net.ipv4.tcp_keepalive_intvl":        "4.5",
	"net.ipv4.tcp_keepalive_probes":       "4.5",
	"net.ipv4.tcp_fin_timeout":            "4.6",
	"net.ipv4.tcp_rmem":                   "4.15",
	"net.ipv4.tcp_wmem":                   "4.15",
}

// checkSysctls lets through what is safe or allowed, as long as the pod has the
// namespace to itself: in one of the host's it would change the whole machine.
func checkSysctls(p *v1.Pod, node Node) *Rejection {
	if p.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range p.Spec.SecurityContext.Sysctls {
		name := sysctl.NormalizeName(s.Name) // net/ipv4/x is net.ipv4.x
		if why := forbidden(name, p, node); why != "" {
			return &Rejection{Reason: reasonSysctlForbidden, Message: fmt.Sprintf("forbidden sysctl: %q %s", name, why)}
		}
	}
	return nil
}

// forbidden says why a pod may not set a sysctl, or nothing if it may.
func forbidden(name string, p *v1.Pod, node Node) string {
	namespace, why := sysctlNamespace(name, node)
	if why != "" {
		return why
	}
	if (namespace == sysctl.NetNamespace && p.Spec.HostNetwork) || (namespace == sysctl.IPCNamespace && p.Spec.HostIPC) {
		return fmt.Sprintf("not allowed with host %s enabled", namespace)
	}
	return ""
}

// sysctlNamespace returns the namespace that holds a sysctl which pods may set,
// or why they may not. A pattern that names none of the known namespaces allows
// nothing: a value there would be one of the machine.
func sysctlNamespace(name string, node Node) (namespace sysctl.Namespace, why string) {
	for _, pattern := range node.UnsafeSysctls {
		namespace, allowed, isPrefix := sysctl.GetNamespace(pattern)
		matches := name == allowed || (isPrefix && strings.HasPrefix(name, allowed))
		if matches && namespace != sysctl.UnknownNamespace {
			return namespace, ""
		}
	}
	first, safe := safeSysctls[name]
	switch {
	case !safe:
		return "", "not allowlisted"
	case !kernelAtLeast(node.Kernel, first):
		return "", fmt.Sprintf("not allowlisted: it is safe from kernel %s on, and this node has %q", first, node.Kernel)
	}
	namespace, _, _ = sysctl.GetNamespace(name)
	return namespace, ""
}

// kernelAtLeast reports whether a release is at least the given version.
func kernelAtLeast(release, atLeast string) bool {
	if atLeast == "" {
		return true
	}
	have, err := version.ParseGeneric(release)
	return err == nil && have.AtLeast(version.MustParseGeneric(atLeast))
}
