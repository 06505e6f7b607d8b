package config

import (
	"net/netip"
	"strings"
)

func (l *loader) nodeIPs() {
	const name = "--" + flagNodeIP
	if l.flags.nodeIP == "" {
		return
	}
	for _, text := range strings.Split(l.flags.nodeIP, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(text))
		switch {
		case err != nil || ip.Zone() != "":
			l.fail(name, "%q is not an IP address", text)
		case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast():
			l.fail(name, "%s can't be the address of a node: give one that others reach it at", ip)
		default:
			l.c.NodeIPs = append(l.c.NodeIPs, ip.Unmap())
		}
	}
	if n := len(l.c.NodeIPs); n > 2 || (n == 2 && l.c.NodeIPs[0].Is4() == l.c.NodeIPs[1].Is4()) {
		l.fail(name, "give at most one IPv4 and one IPv6 address")
	}
}

// podCIDR checks the range of the pods' addresses. The network, the gateway and
// the broadcast address go off it, and a range that is too small is full soon.
func (l *loader) podCIDR() {
	const shortest4, longest4, shortest6, longest6 = 8, 28, 32, 120
	c := l.pick(flagPodCIDR, l.flags.podCIDR, "podCIDR", l.file.PodCIDR)
	p, err := netip.ParsePrefix(c.value)
	if err != nil {
		l.fail(c.name, "%q is not a range of addresses such as %s", c.value, DefaultPodCIDR)
		return
	}
	if p != p.Masked() {
		l.fail(c.name, "%s has bits set past its length: write %s", p, p.Masked())
		return
	}
	if ip := p.Addr(); ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.Is4In6() {
		l.fail(c.name, "%s is reserved: choose a private range such as %s", p, DefaultPodCIDR)
		return
	}
	shortest, longest := shortest4, longest4
	if p.Addr().Is6() {
		shortest, longest = shortest6, longest6
	}
	if p.Bits() > longest {
		l.fail(c.name, "%s has no room for pods: its length must be at most /%d", p, longest)
	}
	if p.Bits() < shortest {
		l.fail(c.name, "%s would swallow other networks: its length must be at least /%d", p, shortest)
	}
	l.c.PodCIDR = p
}
