package node

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	// uninitializedTaint keeps pods away until the cloud controller manager has completed the Node.
	uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
	// providedIPsAnnotation has the addresses that were set by hand, for the cloud controller manager.
	providedIPsAnnotation = "alpha.kubernetes.io/provided-node-ip"
)

// taints returns the taints of a Node that registers.
func taints(s Settings) []v1.Taint {
	if !s.ExternalCloud {
		return s.Taints
	}
	return append(slices.Clone(s.Taints), v1.Taint{Key: uninitializedTaint, Value: "true", Effect: v1.TaintEffectNoSchedule})
}

// annotations returns the annotations that a Node is kept to.
func annotations(s Settings) map[string]string {
	out := map[string]string{attachAnnotation: "true"}
	if s.ExternalCloud && len(s.NodeIPs) > 0 && !s.NodeIPs[0].IsUnspecified() {
		var ips []string
		for _, ip := range s.NodeIPs {
			ips = append(ips, ip.String())
		}
		out[providedIPsAnnotation] = strings.Join(ips, ",")
	}
	return out
}

// addresses returns the addresses of the Node. In a cloud, those that are shown stay, since the cloud controller manager sets
// them; until it has, a Node has only the addresses that were set by hand.
func addresses(ips []string, s Settings, shown []v1.NodeAddress) []v1.NodeAddress {
	if s.ExternalCloud {
		if len(shown) > 0 {
			return shown
		}
		if len(s.NodeIPs) == 0 {
			ips = nil
		}
	}
	var out []v1.NodeAddress
	for _, ip := range ips {
		out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return append(out, v1.NodeAddress{Type: v1.NodeHostName, Address: s.hostname()})
}

// HostIPs returns the addresses of a Node that its pods have as host IPs: the first one, internal before external, and the
// next one of the other family. node may be nil.
func HostIPs(node *v1.Node) []string {
	if node == nil {
		return nil
	}
	var out []netip.Addr
	for _, kind := range []v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP} {
		for _, a := range node.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if a.Type == kind && err == nil && (len(out) == 0 || len(out) == 1 && ip.Is4() != out[0].Is4()) {
				out = append(out, ip)
			}
		}
	}
	var texts []string
	for _, ip := range out {
		texts = append(texts, ip.String())
	}
	return texts
}
