package bundle

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"berth/internal/host/roots"
)

// conflist is the configuration of the network: a chain of CNI plugins for a bridge that pods are
// plugged into, host ports, and limits on the traffic of single pods.
type conflist struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Plugins    []any  `json:"plugins"`
}

type bridgePlugin struct {
	Type          string `json:"type"`
	Bridge        string `json:"bridge"`
	IsGateway     bool   `json:"isGateway"`
	IPMasq        bool   `json:"ipMasq"`
	IPMasqBackend string `json:"ipMasqBackend"`
	HairpinMode   bool   `json:"hairpinMode"`
	IPAM          ipam   `json:"ipam"`
}

type ipam struct {
	Type    string      `json:"type"`
	DataDir string      `json:"dataDir"`
	Ranges  [][]ipRange `json:"ranges"`
	Routes  []route     `json:"routes"`
}

type ipRange struct {
	Subnet string `json:"subnet"`
}

type route struct {
	Dst string `json:"dst"`
}

type metaPlugin struct {
	Type         string          `json:"type"`
	Backend      string          `json:"backend,omitempty"`
	SNAT         bool            `json:"snat,omitempty"`
	Capabilities map[string]bool `json:"capabilities"`
}

// natBackend is the same on all machines, so that Teardown knows where the plugins leave their
// rules.
const natBackend = "iptables"

func renderNetwork(p paths, owner roots.Owner) ([]byte, error) {
	bridge, _ := owner.Bridge()
	podCIDR := owner.PodCIDR()
	everywhere := "0.0.0.0/0"
	if podCIDR.Addr().Is6() {
		everywhere = "::/0"
	}
	list := conflist{
		CNIVersion: "1.0.0",
		Name:       owner.NetworkName(),
		Plugins: []any{
			bridgePlugin{
				Type: "bridge", Bridge: bridge, IsGateway: true, IPMasq: true, IPMasqBackend: natBackend, HairpinMode: true,
				IPAM: ipam{
					Type: "host-local", DataDir: p.ipam,
					Ranges: [][]ipRange{{{Subnet: podCIDR.Masked().String()}}},
					Routes: []route{{Dst: everywhere}},
				},
			},
			metaPlugin{Type: "portmap", Backend: natBackend, SNAT: true, Capabilities: map[string]bool{"portMappings": true}},
			metaPlugin{Type: "bandwidth", Capabilities: map[string]bool{"bandwidth": true}},
		},
	}
	out, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write network configuration: %w", err)
	}
	return append(out, '\n'), nil
}

// checkPodCIDR refuses ranges that have no room for a gateway and a pod.
func checkPodCIDR(cidr netip.Prefix) error {
	if !cidr.IsValid() {
		return fmt.Errorf("pod CIDR is missing: give a range of addresses such as 10.88.0.0/16")
	}
	if cidr.Addr().BitLen()-cidr.Bits() < 2 {
		return fmt.Errorf("pod CIDR %s has too few addresses for a gateway and a pod", cidr)
	}
	if cidr.Addr().IsMulticast() || cidr.Addr().IsLoopback() || cidr.Addr().IsUnspecified() {
		return fmt.Errorf("pod CIDR %s can not be used for pods", cidr)
	}
	return nil
}

// checkLinkName refuses names that the kernel does not accept for a link.
func checkLinkName(name string) error {
	if name == "" || len(name) > 15 || name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n\"") {
		return fmt.Errorf("bridge name %q is not a link name: at most 15 bytes, without spaces, colons or slashes", name)
	}
	return nil
}
