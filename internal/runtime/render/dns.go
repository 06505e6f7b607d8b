package render

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Limits of the C library for resolver configurations.
const (
	maxServers    = 3
	maxSearches   = 32
	maxSearchLine = 2048
	maxName       = 253
)

// Notice is the reason and message of an event for the pod.
type Notice struct{ Reason, Message string }

const (
	reasonNoClusterDNS = "MissingClusterDNS"
	reasonDNSLimits    = "DNSConfigForming"
)

// Resolver renders the DNS configuration of a pod from its dnsPolicy and dnsConfig. Entries beyond the
// limits are left out, with a notice.
func Resolver(p *v1.Pod, n Node) (*runtimeapi.DNSConfig, []Notice) {
	var out runtimeapi.DNSConfig
	var notices []Notice
	policy := effectivePolicy(p)
	if policy == v1.DNSClusterFirst && len(n.ClusterDNS) == 0 {
		policy = v1.DNSDefault
		if n.InCluster { // a standalone node has no cluster DNS
			notices = append(notices, Notice{reasonNoClusterDNS, fmt.Sprintf(
				"pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
				p.Name+"_"+p.Namespace+"("+string(p.UID)+")", p.Spec.DNSPolicy, v1.DNSDefault)})
		}
	}
	switch policy {
	case v1.DNSClusterFirst:
		out.Servers = slices.Clone(n.ClusterDNS)
		if n.ClusterDomain != "" {
			out.Searches = []string{p.Namespace + ".svc." + n.ClusterDomain, "svc." + n.ClusterDomain, n.ClusterDomain}
		}
		out.Searches = append(out.Searches, n.DNS.Searches...)
		out.Options = []string{"ndots:5"}
	case v1.DNSDefault:
		out.Servers, out.Searches, out.Options = slices.Clone(n.DNS.Servers), slices.Clone(n.DNS.Searches), slices.Clone(n.DNS.Options)
	}
	if extra := p.Spec.DNSConfig; extra != nil {
		out.Servers = append(out.Servers, extra.Nameservers...)
		out.Searches = append(out.Searches, extra.Searches...)
		out.Options = mergeOptions(out.Options, extra.Options)
	}
	out.Servers, out.Searches = unique(out.Servers), unique(out.Searches)
	return &out, append(notices, applyLimits(&out)...)
}

// effectivePolicy is ClusterFirst, Default or None. With hostNetwork, only ClusterFirstWithHostNet means
// ClusterFirst.
func effectivePolicy(p *v1.Pod) v1.DNSPolicy {
	switch p.Spec.DNSPolicy {
	case v1.DNSNone, v1.DNSDefault:
		return p.Spec.DNSPolicy
	case v1.DNSClusterFirstWithHostNet:
		return v1.DNSClusterFirst
	default:
		if p.Spec.HostNetwork {
			return v1.DNSDefault
		}
		return v1.DNSClusterFirst
	}
}

// mergeOptions adds the options of dnsConfig. They replace options of the same name.
func mergeOptions(options []string, extra []v1.PodDNSConfigOption) []string {
	for _, o := range extra {
		option := o.Name
		if o.Value != nil && *o.Value != "" {
			option += ":" + *o.Value
		}
		options = setOption(options, option)
	}
	return options
}

// setOption adds a resolver option, such as ndots:5, or replaces the one of the same name.
func setOption(options []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	same := func(have string) bool { other, _, _ := strings.Cut(have, ":"); return other == name }
	if i := slices.IndexFunc(options, same); i >= 0 {
		options[i] = option
		return options
	}
	return append(options, option)
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// CheckLimits returns what the C library would not read of the machine's own resolver settings.
func (d DNS) CheckLimits() []string {
	var out []string
	for _, n := range applyLimits(&runtimeapi.DNSConfig{Servers: slices.Clone(d.Servers), Searches: slices.Clone(d.Searches)}) {
		out = append(out, n.Message)
	}
	return out
}

// applyLimits removes servers and search domains that the C library would not read.
func applyLimits(c *runtimeapi.DNSConfig) []Notice {
	var notices []Notice
	if len(c.Servers) > maxServers {
		c.Servers = c.Servers[:maxServers]
		notices = append(notices, Notice{
			reasonDNSLimits,
			"Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: " + strings.Join(c.Servers, " "),
		})
	}
	var searches []string
	length := -1 // no space goes before the first
	for _, s := range c.Searches {
		if len(s) > maxName {
			continue
		}
		if len(searches) == maxSearches || length+1+len(s) > maxSearchLine {
			break
		}
		searches, length = append(searches, s), length+1+len(s)
	}
	if len(searches) < len(c.Searches) {
		c.Searches = searches
		notices = append(notices, Notice{
			reasonDNSLimits,
			"Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + strings.Join(searches, " "),
		})
	}
	return notices
}
