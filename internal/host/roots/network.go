package roots

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
)

// podCIDRRange is the range from which pod networks are chosen for roots without --pod-cidr. It
// ends right below the network of the default root.
var podCIDRRange = netip.MustParsePrefix("10.80.0.0/13")

// podCIDRBits is the prefix length of a chosen pod network: it has room for a thousand pods.
const podCIDRBits = 22

// choosePodCIDR returns a network of podCIDRRange that overlaps with none of the taken ones.
// The search begins at an offset that is computed from the id of the root, so that a root
// mostly gets the same network again, even after its claim was removed.
func choosePodCIDR(id string, taken []netip.Prefix) (netip.Prefix, error) {
	sum, err := hex.DecodeString(id)
	if err != nil || len(sum) < 4 {
		return netip.Prefix{}, fmt.Errorf("choose a pod CIDR: %q is not the id of a root directory", id)
	}
	count := uint32(1) << (podCIDRBits - podCIDRRange.Bits())
	base := podCIDRRange.Addr().As4()
	from := binary.BigEndian.Uint32(sum)
	for i := range count {
		at := base
		offset := ((from + i) % count) << (32 - podCIDRBits)
		binary.BigEndian.PutUint32(at[:], binary.BigEndian.Uint32(base[:])+offset)
		network := netip.PrefixFrom(netip.AddrFrom4(at), podCIDRBits)
		if !slices.ContainsFunc(taken, network.Overlaps) {
			return network, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("choose a pod CIDR: all networks of %s are taken on this machine: give one with --pod-cidr", podCIDRRange)
}
