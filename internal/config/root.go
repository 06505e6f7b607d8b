package config

import (
	"net/netip"

	"berth/internal/host/roots"
)

// RootRequest returns what the agent needs of the machine for its root directory.
func (c *Config) RootRequest() roots.Request {
	return roots.Request{
		Root: c.RootDir, CgroupRoot: c.CgroupRoot, Bridge: c.Bridge, PodCIDR: c.PodCIDR, LogsDir: c.PodLogsDir,
		Runtime: c.RuntimeEndpoint, Ports: c.API.ports(), Names: c.Names,
	}
}

// SetRootNames sets the names that were chosen for the root directory.
func (c *Config) SetRootNames(r roots.Request) {
	c.CgroupRoot, c.Bridge, c.PodCIDR, c.Names = r.CgroupRoot, r.Bridge, r.PodCIDR, r.Names
}

// ports returns the addresses and ports on which the agent listens.
func (a API) ports() []netip.AddrPort {
	var out []netip.AddrPort
	for _, p := range []struct {
		address netip.Addr
		port    int
	}{{a.Address, a.Port}, {a.Address, a.ReadOnlyPort}, {a.HealthzAddress, a.HealthzPort}} {
		if p.port != 0 {
			out = append(out, netip.AddrPortFrom(p.address, uint16(p.port))) // it was checked when it was read
		}
	}
	return out
}
