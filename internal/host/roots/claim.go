package roots

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

// Claim lists the cgroups, links, addresses, ports and log folders of the machine that one root
// owns.
type Claim struct {
	Root       string `json:"root"`     // the root directory as it was given
	Resolved   string `json:"resolved"` // the same without symbolic links
	ID         string `json:"id"`
	CgroupRoot string `json:"cgroupRoot"`
	LogsDir    string `json:"logsDir"` // holds a folder of logs for each pod
	Runtime    string `json:"runtime"` // endpoint of the container runtime
	// NetNS is the inode of the network namespace in which the agent runs. Links, networks
	// and ports of different namespaces do not conflict.
	NetNS   uint64           `json:"netNS"`
	Network *Network         `json:"network,omitempty"` // nil if the runtime was given, with its network
	Ports   []netip.AddrPort `json:"ports,omitempty"`   // on which the agent listens while it runs
	Agent   Process          `json:"agent"`             // the last agent that worked in the root
	// Names that an older version gave to all roots: see Names.Shared.
	SharedCgroup bool `json:"sharedCgroup,omitempty"`
	SharedBridge bool `json:"sharedBridge,omitempty"`
}

// Network is the network of a root's pods.
type Network struct {
	Bridge  string       `json:"bridge"`
	PodCIDR netip.Prefix `json:"podCIDR"` // not valid in a claim that is to be made: one is chosen
}

// Process identifies a process. The kernel reuses pids; processes with the same pid differ in
// their start time.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since the machine came up
}

// ConflictError says that a claim conflicts with the claim of another root.
type ConflictError struct {
	What     string // the claimed thing, such as "cgroup root /berth"
	Relation string // verb between What and the other root: "belongs to", "overlaps with"
	Other    Claim
	Up       bool   // the agent of the other root runs
	Hint     string // what to do instead
}

func (e *ConflictError) Error() string {
	pid := ""
	if e.Up {
		pid = fmt.Sprintf(" (agent with pid %d)", e.Other.Agent.PID)
	}
	return fmt.Sprintf("%s %s root directory %s%s: %s, or end the pods of that one with 'berth down --root-dir %s'",
		e.What, e.Relation, e.Other.Root, pid, e.Hint, e.Other.Root)
}

// kind is a part of a claim that can conflict with another claim.
type kind int

const (
	kindRoot kind = iota
	kindCgroup
	kindLogs
	kindNetwork
	kindPort
)

// conflicts returns the conflicts of c with another claim. up reports whether the agent of other
// runs.
func (c Claim) conflicts(other Claim, up bool) map[kind]*ConflictError {
	out := map[kind]*ConflictError{}
	clash := func(k kind, what, relation, hint string) {
		if out[k] == nil {
			out[k] = &ConflictError{What: what, Relation: relation, Other: other, Up: up, Hint: hint}
		}
	}
	if nested(c.Resolved, other.Resolved) {
		clash(kindRoot, "root directory "+c.Root, "lies within, or around,", "choose a --root-dir elsewhere")
	} else if c.ID == other.ID {
		clash(kindRoot, "the id "+c.ID+" of root directory "+c.Root, "is also that of", "choose another --root-dir")
	}
	unshare := "run 'berth down --root-dir " + c.Root + "' once, after which it has names of its own"
	if nested(c.CgroupRoot, other.CgroupRoot) {
		relation, hint := "belongs to", "set another cgroupRoot in the configuration, or none"
		if c.SharedCgroup {
			hint = unshare
		}
		if c.CgroupRoot != other.CgroupRoot {
			relation = "lies within cgroup root " + other.CgroupRoot + ", or the other way round, which belongs to"
		}
		clash(kindCgroup, "cgroup root "+c.CgroupRoot, relation, hint)
	}
	if nested(c.LogsDir, other.LogsDir) {
		clash(kindLogs, "folder of logs "+c.LogsDir, "is, or is part of, that of", "set another podLogsDir in the configuration, or none")
	}
	if c.NetNS != other.NetNS {
		return out
	}
	if c.Network != nil && other.Network != nil {
		if c.Network.Bridge == other.Network.Bridge {
			hint := "choose another --root-dir"
			if c.SharedBridge {
				hint = unshare
			}
			clash(kindNetwork, "bridge "+c.Network.Bridge, "belongs to", hint)
		}
		if c.Network.PodCIDR.Overlaps(other.Network.PodCIDR) {
			clash(kindNetwork, "pod CIDR "+c.Network.PodCIDR.String(), "overlaps with "+other.Network.PodCIDR.String()+" of", "give another --pod-cidr, or none")
		}
	}
	if up {
		for _, mine := range c.Ports {
			for _, theirs := range other.Ports {
				if samePort(mine, theirs) {
					clash(kindPort, "port "+mine.String(), "is in use by", "give another port")
				}
			}
		}
	}
	return out
}

// nested reports whether one of two paths is the other one, or lies within it.
func nested(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return a == b || within(a, b) || within(b, a)
}

// within reports whether path is below dir.
func within(path, dir string) bool {
	return strings.HasPrefix(filepath.Clean(path), strings.TrimSuffix(filepath.Clean(dir), "/")+"/")
}

func samePort(a, b netip.AddrPort) bool {
	return a.Port() == b.Port() && (a.Addr() == b.Addr() || a.Addr().IsUnspecified() || b.Addr().IsUnspecified())
}
