package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"

	"berth/internal/config"
	"berth/internal/host/roots"
)

// addressAudit is how often the machine is looked at whatever the kernel tells: that of a
// new route it does not.
const addressAudit = time.Minute

// addresses are those of this node. They may change while the agent runs: a machine may
// get its own after the agent was started.
type addresses struct {
	config *config.Config
	log    *slog.Logger
	last   atomic.Pointer[[]string]
}

func newAddresses(c *config.Config, log *slog.Logger) (*addresses, error) {
	ips, err := hostIPs(c)
	a := &addresses{config: c, log: log}
	a.last.Store(&ips)
	return a, err
}

// now returns at least one.
func (a *addresses) now() []string { return *a.last.Load() }

// watch calls changed whenever they are others than before, until ctx ends.
func (a *addresses) watch(ctx context.Context, changed func()) {
	if a.config.NodeIP.IsValid() {
		return
	}
	updates := make(chan netlink.AddrUpdate, 16)
	if err := netlink.AddrSubscribe(updates, ctx.Done()); err != nil {
		a.log.Warn("new addresses of the machine are noticed late", "after", addressAudit, "err", err)
		updates = nil
	}
	for {
		select {
		case _, more := <-updates:
			if !more {
				updates = nil // the kernel had more to tell than we took
			}
		case <-time.After(addressAudit):
		case <-ctx.Done():
			return
		}
		ips, err := hostIPs(a.config)
		if err != nil || slices.Equal(ips, a.now()) {
			continue
		}
		a.log.Info("the node has another address", "is", ips, "was", a.now())
		a.last.Store(&ips)
		changed()
	}
}

// Where packets to the rest of the world would go. None is sent.
var elsewhere = []string{"192.0.2.1:9", "[2001:db8::1]:9"}

// hostIPs are the addresses of this node as they are now: the one that was given, or
// else the one that the machine speaks to others from.
func hostIPs(c *config.Config) ([]string, error) {
	if c.NodeIP.IsValid() {
		return []string{c.NodeIP.String()}, nil
	}
	var routed []netip.Addr
	for _, to := range elsewhere {
		conn, err := net.Dial("udp", to)
		if err != nil {
			continue // there is no way
		}
		if from, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
			routed = append(routed, from.Addr())
		}
		_ = conn.Close() // nothing was sent
	}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the machine's addresses: %w", err)
	}
	var all []netip.Addr
	for _, a := range found {
		if network, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(network.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
	}
	return []string{nodeIP(routed, all, podNetworks(c)).String()}, nil
}

// podNetworks are the networks of the pods on this machine, also of other root directories.
func podNetworks(c *config.Config) []netip.Prefix {
	out := []netip.Prefix{c.PodCIDR}
	if claims, err := (roots.Registry{Dir: roots.RegistryDir}).All(); err == nil { // without them, it is only a guess that is worse
		for _, claim := range claims {
			if claim.Network != nil {
				out = append(out, claim.Network.PodCIDR)
			}
		}
	}
	return out
}

// nodeIP chooses: who has a way to others before who has not, and of these IPv4 before
// IPv6. The networks of pods are for them alone. A machine without a network is still
// a node.
func nodeIP(routed, all []netip.Addr, pods []netip.Prefix) netip.Addr {
	usable := func(ip netip.Addr) bool {
		return ip.IsGlobalUnicast() && !slices.ContainsFunc(pods, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	for _, some := range [][]netip.Addr{routed, all} {
		for _, four := range []bool{true, false} {
			for _, ip := range some {
				if ip.Is4() == four && usable(ip) {
					return ip
				}
			}
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
