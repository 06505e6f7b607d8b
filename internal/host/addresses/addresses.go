// Package addresses chooses the IP addresses of the node, and watches them.
package addresses

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

	"berth/internal/host/roots"
)

// recheckInterval is the time between two looks at the machine that no message of the kernel asked
// for: the kernel sends none for a new route.
const recheckInterval = time.Minute

// Config configures a Watcher.
type Config struct {
	// NodeIPs are the addresses that were set for the node: one, or one of each family. A single unspecified one only says
	// which family is preferred. None: the machine decides, and prefers IPv4.
	NodeIPs []netip.Addr
	PodCIDR netip.Prefix // the network of pods, which is never the node's
	Log     *slog.Logger
}

// isSet reports whether the addresses of the node were set.
func (c Config) isSet() bool { return len(c.NodeIPs) > 0 && !c.NodeIPs[0].IsUnspecified() }

func (c Config) prefersIPv6() bool { return len(c.NodeIPs) > 0 && c.NodeIPs[0].Is6() }

// Watcher watches the addresses of this node. They may change while the agent runs: a machine may
// get its address after the agent was started.
type Watcher struct {
	cfg  Config
	last atomic.Pointer[[]string]
}

// New reads the addresses of the machine.
func New(c Config) (*Watcher, error) {
	w := &Watcher{cfg: c}
	ips, err := w.Read()
	w.last.Store(&ips)
	return w, err
}

// Last returns the addresses that were read last, at least one.
func (w *Watcher) Last() []string { return *w.last.Load() }

// Run calls changed whenever the addresses are others than before, until ctx ends.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	if w.cfg.isSet() {
		return
	}
	updates := make(chan netlink.AddrUpdate, 16)
	if err := netlink.AddrSubscribe(updates, ctx.Done()); err != nil {
		w.cfg.Log.Warn("new addresses of the machine are noticed late", "after", recheckInterval, "err", err)
		updates = nil
	}
	for {
		select {
		case _, more := <-updates:
			if !more {
				updates = nil // the kernel sent more than was received
			}
		case <-time.After(recheckInterval):
		case <-ctx.Done():
			return
		}
		ips, err := w.Read()
		if err != nil || slices.Equal(ips, w.Last()) {
			continue
		}
		w.cfg.Log.Info("the node has another address", "is", ips, "was", w.Last())
		w.last.Store(&ips)
		changed()
	}
}

// outside are addresses outside of the machine, one of each family. No packet is sent to them.
var outside = []string{"192.0.2.1:9", "[2001:db8::1]:9"}

// Read reads the addresses of this node: those that were set, or else the source address of packets
// that leave the machine.
func (w *Watcher) Read() ([]string, error) {
	if w.cfg.isSet() {
		var out []string
		for _, ip := range w.cfg.NodeIPs {
			out = append(out, ip.String())
		}
		return out, nil
	}
	var routed []netip.Addr
	for _, to := range outside {
		conn, err := net.Dial("udp", to)
		if err != nil {
			continue // there is no route
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
	return []string{nodeIP(routed, all, podNetworks(w.cfg.PodCIDR), w.cfg.prefersIPv6()).String()}, nil
}

// podNetworks are the networks of the pods on this machine, also of other root directories.
func podNetworks(own netip.Prefix) []netip.Prefix {
	out := []netip.Prefix{own}
	if claims, err := (roots.Registry{Dir: roots.RegistryDir}).All(); err == nil { // without them, it is only a guess that is worse
		for _, claim := range claims {
			if claim.Network != nil {
				out = append(out, claim.Network.PodCIDR)
			}
		}
	}
	return out
}

// nodeIP chooses the address of the node: a routed address before all others, and IPv4 before
// IPv6 unless that is preferred. Addresses in the networks of pods are left out. A machine without a network gets
// the loopback address.
func nodeIP(routed, all []netip.Addr, pods []netip.Prefix, prefersIPv6 bool) netip.Addr {
	usable := func(ip netip.Addr) bool {
		return ip.IsGlobalUnicast() && !slices.ContainsFunc(pods, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	for _, some := range [][]netip.Addr{routed, all} {
		for _, four := range []bool{!prefersIPv6, prefersIPv6} {
			for _, ip := range some {
				if ip.Is4() == four && usable(ip) {
					return ip
				}
			}
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
