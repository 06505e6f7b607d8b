package render

import (
	"fmt"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	// maxLabel is the longest DNS label. A longer name of a pod is truncated to it.
	maxLabel = 63
	// maxHostname is the longest hostname that Linux allows.
	maxHostname = 64
)

// Names are the hostname and domain of a pod.
type Names struct {
	Host   string
	Domain string // "": the pod has none
}

// NamesOf returns the names of a pod. A pod with a subdomain has a domain below the cluster
// domain. A hostnameOverride replaces both.
func NamesOf(p *v1.Pod, n Node) Names {
	switch {
	case p.Spec.HostnameOverride != nil && *p.Spec.HostnameOverride != "":
		return Names{Host: *p.Spec.HostnameOverride}
	case p.Spec.Hostname != "":
		return Names{Host: p.Spec.Hostname, Domain: domain(p, n)}
	default:
		return Names{Host: truncateLabel(p.Name), Domain: domain(p, n)}
	}
}

// domain returns the domain of a pod. In a cluster without a domain of its own, names are those that the kubelet gives:
// they are below the root of the DNS, and so end in a dot.
func domain(p *v1.Pod, n Node) string {
	if p.Spec.Subdomain == "" {
		return ""
	}
	services := join(p.Spec.Subdomain, p.Namespace, "svc")
	if n.InCluster {
		return services + "." + n.ClusterDomain
	}
	return join(services, n.ClusterDomain)
}

// join joins the parts of a DNS name that are not empty.
func join(parts ...string) string {
	var out []string
	for _, part := range parts {
		if part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, ".")
}

// FQDN returns the fully qualified domain name.
func (n Names) FQDN() string { return join(n.Host, n.Domain) }

func truncateLabel(name string) string {
	if len(name) <= maxLabel {
		return name
	}
	return strings.TrimRight(name[:maxLabel], "-.")
}

// hostname returns the hostname of a sandbox, or "" for the hostname of the machine.
func hostname(p *v1.Pod, n Node) (string, error) {
	if p.Spec.HostNetwork {
		return "", nil
	}
	names := NamesOf(p, n)
	if p.Spec.SetHostnameAsFQDN == nil || !*p.Spec.SetHostnameAsFQDN {
		return names.Host, nil
	}
	fqdn := names.FQDN()
	if len(fqdn) > maxHostname {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
			fqdn, maxHostname, len(fqdn))
	}
	return fqdn, nil
}

// HostsFile returns the content of a pod's /etc/hosts: the names of the pod at its addresses,
// and its hostAliases. With hostNetwork, the content of the machine's file replaces the names.
func HostsFile(p *v1.Pod, ips []string, machine string, n Node) (string, error) {
	var out strings.Builder
	if p.Spec.HostNetwork {
		out.WriteString("# Kubernetes-managed hosts file (host network).\n")
		out.WriteString(machine)
		if machine != "" && !strings.HasSuffix(machine, "\n") {
			out.WriteByte('\n')
		}
	} else {
		out.WriteString("# Kubernetes-managed hosts file.\n")
		for _, line := range [][]string{
			{"127.0.0.1", "localhost"},
			{"::1", "localhost", "ip6-localhost", "ip6-loopback"},
			{"fe00::0", "ip6-localnet"},
			{"fe00::0", "ip6-mcastprefix"},
			{"fe00::1", "ip6-allnodes"},
			{"fe00::2", "ip6-allrouters"},
		} {
			writeLine(&out, line...)
		}
		names := NamesOf(p, n)
		for _, ip := range ips {
			if names.Domain == "" {
				writeLine(&out, ip, names.Host)
			} else {
				writeLine(&out, ip, names.FQDN(), names.Host)
			}
		}
	}
	if len(p.Spec.HostAliases) == 0 {
		return out.String(), nil
	}
	out.WriteString("\n# Entries added by HostAliases.\n")
	for _, alias := range p.Spec.HostAliases {
		if ip, err := netip.ParseAddr(alias.IP); err != nil || ip.Zone() != "" {
			return "", fmt.Errorf("hostAliases: %q is not an address", alias.IP)
		}
		for _, name := range alias.Hostnames {
			if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '#' }) {
				return "", fmt.Errorf("hostAliases of %s: %q is not a name", alias.IP, name)
			}
		}
		writeLine(&out, append([]string{alias.IP}, alias.Hostnames...)...)
	}
	return out.String(), nil
}

func writeLine(out *strings.Builder, words ...string) {
	out.WriteString(strings.Join(words, "\t"))
	out.WriteByte('\n')
}
