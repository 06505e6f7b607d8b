package roots

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
)

// Pod networks of roots that were given none are taken out of ownRange, which lies right
// below the network of the default root.
var ownRange = netip.MustParsePrefix("10.80.0.0/13")

// ownBits is the size of such a network: it has room for a thousand pods.
const ownBits = 22

// choosePodCIDR returns a network out of ownRange that overlaps with none of those that
// are taken. The search begins at a place that follows from the id of the root, so that a
// root seldom gets another network than the last time, even if nobody remembers it.
func choosePodCIDR(id string, taken []netip.Prefix) (netip.Prefix, error) {
	sum, err := hex.DecodeString(id)
	if err != nil || len(sum) < 4 {
		return netip.Prefix{}, fmt.Errorf("choose a pod CIDR: %q is not the id of a root directory", id)
	}
	count := uint32(1) << (ownBits - ownRange.Bits())
	base := ownRange.Addr().As4()
	from := binary.BigEndian.Uint32(sum)
	for i := range count {
		at := base
		offset := ((from + i) % count) << (32 - ownBits)
		binary.BigEndian.PutUint32(at[:], binary.BigEndian.Uint32(base[:])+offset)
		network := netip.PrefixFrom(netip.AddrFrom4(at), ownBits)
		if !slices.ContainsFunc(taken, network.Overlaps) {
			return network, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("choose a pod CIDR: all networks of %s are taken on this machine: give one with --pod-cidr", ownRange)
}
