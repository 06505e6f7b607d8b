package roots

import (
	"fmt"
	"net/netip"
)

// Owner is the proof that a root owns what it claims. Code that ends or removes something outside
// of the root directory asks the Owner first. The zero Owner owns nothing. Only a Registry makes
// an Owner.
type Owner struct {
	claim Claim
	lacks map[kind]bool // the kinds that another root has claimed
}

// ID is the label of the root's sandboxes and containers in a runtime.
func (o Owner) ID() string { return o.claim.ID }

// Root is the root directory.
func (o Owner) Root() string { return o.claim.Root }

// CgroupRoot is the parent of the cgroups of the root's pods.
func (o Owner) CgroupRoot() string { return o.claim.CgroupRoot }

// AllCgroups reports whether all pods below the cgroup root are pods of this root. If not, only
// cgroups with the UID of one of its pods are its own, and they may hold processes of another root.
func (o Owner) AllCgroups() bool {
	return o.OwnsCgroupRoot() && !o.claim.SharedCgroup
}

// OwnsCgroupRoot reports whether no other root has claimed the cgroup root.
func (o Owner) OwnsCgroupRoot() bool { return o.claim.CgroupRoot != "" && !o.lacks[kindCgroup] }

// OwnsCgroup refuses the path of a cgroup that is not below the cgroup root.
func (o Owner) OwnsCgroup(path string) error {
	if o.claim.CgroupRoot == "" || !within(path, o.claim.CgroupRoot) {
		return fmt.Errorf("cgroup %s is left alone: it is not below %q, the cgroup root of root directory %s", path, o.claim.CgroupRoot, o.claim.Root)
	}
	return nil
}

// LogsDir is the folder that holds the logs of the root's pods and of no others, or "".
func (o Owner) LogsDir() string {
	if o.lacks[kindLogs] {
		return ""
	}
	return o.claim.LogsDir
}

// NetworkName is the name of the network of the root's pods, also in firewall rules.
func (o Owner) NetworkName() string { return "berth-" + o.claim.ID }

// Bridge returns the bridge of the root's pods. alone reports whether pods of no other root
// are on it.
func (o Owner) Bridge() (name string, alone bool) {
	if o.claim.Network == nil {
		return "", false
	}
	return o.claim.Network.Bridge, !o.claim.SharedBridge && !o.lacks[kindNetwork]
}

// PodCIDR are the addresses of the root's pods. It is not valid if the runtime was given.
func (o Owner) PodCIDR() netip.Prefix {
	if o.claim.Network == nil {
		return netip.Prefix{}
	}
	return o.claim.Network.PodCIDR
}

// NetNS is the network namespace in which the root's links and firewall rules are.
func (o Owner) NetNS() uint64 { return o.claim.NetNS }
