// Package roots keeps the agents of one machine apart.
//
// Each agent works in a root directory. All that it makes outside of that directory is in
// a place that the agents of the machine share: the cgroup tree, the links, addresses and
// firewall rules of a network namespace, folders of logs, ports, and a container runtime if
// several agents use the same one.
//
//   - Names are the names of one root's cgroup, bridge and so on. They follow from the path
//     of the root, so that two roots differ without configuration.
//   - A Claim lists what one root owns. The Registry below /run holds the claims of all
//     roots, and refuses a claim that conflicts with that of another root.
//   - An Owner is the proof of a claim. Functions that end a process or remove something
//     outside of the root directory require one, so that nothing is removed by a bare name.
//
// The Registry is the only writer of the claims. A claim outlives its agent, as the pods do:
// 'berth down' releases it.
package roots

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"path/filepath"
)

// Default is the default of --root-dir. Its names are the ones that older versions gave to all
// roots.
const Default = "/var/lib/berth"

const (
	defaultCgroupRoot = "/berth"
	defaultBridge     = "berth0"
)

var defaultPodCIDR = netip.MustParsePrefix("10.88.0.0/16")

// Names are the names of a root's cgroup, network and folders outside of its directory.
type Names struct {
	Root       string       `json:"root"` // the directory, without symbolic links
	ID         string       `json:"id"`   // part of the names below, and a label of the root's sandboxes and containers
	CgroupRoot string       `json:"cgroupRoot"`
	Bridge     string       `json:"bridge"`  // at most 15 bytes
	PodCIDR    netip.Prefix `json:"podCIDR"` // not valid: still to be chosen
	// Shared: the names are those of the default root, and this is another root: an older
	// version, which gave all roots the same names, has made its cgroups and links.
	Shared bool `json:"shared,omitempty"`
}

// ID returns the id of a root directory: a short hash of its path.
func ID(root string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(root)))
	return hex.EncodeToString(sum[:4])
}

// SharedNames returns the names that older versions gave to every root.
func SharedNames(path, resolved string) Names {
	return Names{
		Root: resolved, ID: ID(path), CgroupRoot: defaultCgroupRoot, Bridge: defaultBridge, PodCIDR: defaultPodCIDR,
		Shared: path != Default,
	}
}

// NamesOf returns the names of the root directory at path; resolved is the same directory
// without symbolic links. before are the names that the root had last, if any: they stay, since pods may
// run under them. Shared names stay only while the root is in use (see InUse).
func NamesOf(path, resolved string, before Names, inUse bool) Names {
	switch {
	case path == Default:
		return SharedNames(path, resolved)
	case before.ID != "" && before.Root == resolved && (inUse || !before.Shared): // a copy of a root is another root
		return before
	}
	id := ID(path)
	return Names{Root: resolved, ID: id, CgroupRoot: "/berth-" + id, Bridge: "berth-" + id}
}
