package roots

import (
	"fmt"
	"net/netip"
	"path/filepath"
)

// Request is what the configuration of an agent says of the things that its root owns on the machine.
// CgroupRoot, Bridge and PodCIDR may be left empty: Named fills them in.
type Request struct {
	Root       string // the root directory
	CgroupRoot string
	Bridge     string       // of the bundled network
	PodCIDR    netip.Prefix // of the bundled network; not valid: to be chosen by the Registry
	LogsDir    string
	Runtime    string           // endpoint of a runtime that was given, with its network; "": the bundled one
	Ports      []netip.AddrPort // on which the agent listens
	Names      Names            // of the root, also where the fields above are set to others
}

// Named fills in the names that are empty. before are the names that the last agent of this root had; nil if there
// was none. An older version, in which all roots had the same names, saved none.
func (r Request) Named(before *Names) (Request, error) {
	resolved, err := filepath.EvalSymlinks(r.Root)
	if err != nil {
		return r, fmt.Errorf("find the root directory: %w", err)
	}
	used, err := InUse(r.Root)
	if err != nil {
		return r, err
	}
	return r.named(resolved, before, used), nil
}

// named is Named for a root directory of which the files were looked at: resolved is its path without symbolic links.
func (r Request) named(resolved string, before *Names, inUse bool) Request {
	var last Names
	if before != nil {
		last = *before
		if last.ID == "" {
			last = SharedNames(r.Root, resolved)
		}
	}
	r.Names = NamesOf(r.Root, resolved, last, inUse)
	if r.CgroupRoot == "" {
		r.CgroupRoot = r.Names.CgroupRoot
	}
	if r.Bridge == "" {
		r.Bridge = r.Names.Bridge
	}
	if !r.PodCIDR.IsValid() {
		r.PodCIDR = r.Names.PodCIDR
	}
	return r
}

// withoutSharedNames drops the names that all roots had in an older version from the request of an agent
// that ran last with one. If nothing of pods is left in its root (inUse), they belong to another root by now.
func (r Request) withoutSharedNames(inUse bool) Request {
	older := r.Names.ID == ""
	if r.Root == Default || inUse || !older && !r.Names.Shared {
		return r
	}
	shared := SharedNames(r.Root, r.Root)
	if r.CgroupRoot == shared.CgroupRoot {
		r.CgroupRoot = ""
	}
	if r.Bridge == shared.Bridge {
		r.Bridge = ""
	}
	if r.PodCIDR == shared.PodCIDR {
		r.PodCIDR = netip.Prefix{}
	}
	return r
}

// withPodCIDR sets the network that was chosen, so that the root keeps it.
func (r Request) withPodCIDR(chosen netip.Prefix) Request {
	if !r.PodCIDR.IsValid() && chosen.IsValid() {
		r.PodCIDR, r.Names.PodCIDR = chosen, chosen
	}
	return r
}

// claim lists what an agent of a named request needs for itself, in the network namespace netNS.
func (r Request) claim(netNS uint64, agent Process) Claim {
	claim := Claim{
		Root: r.Root, Resolved: r.Names.Root, ID: r.Names.ID, CgroupRoot: r.CgroupRoot, LogsDir: r.LogsDir,
		Runtime: r.Runtime, NetNS: netNS, Ports: r.Ports, Agent: agent,
		SharedCgroup: r.Names.Shared && r.CgroupRoot == r.Names.CgroupRoot,
		SharedBridge: r.Names.Shared && r.Bridge == r.Names.Bridge,
	}
	if r.Runtime == "" {
		claim.Network = &Network{Bridge: r.Bridge, PodCIDR: r.PodCIDR}
	}
	return claim
}
