package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"

	"berth/internal/config"
	"berth/internal/host/roots"
	"berth/internal/pods/cgroup"
	"berth/internal/runtime/bundle"
)

func newRegistry() (roots.Registry, error) {
	tree, err := cgroup.Open()
	if err != nil {
		return roots.Registry{}, err
	}
	return roots.Registry{Dir: roots.RegistryDir, Occupied: tree.Occupied, Networks: roots.MachineNetworks, Running: roots.ProcessRuns}, nil
}

// ClaimRoot gives a root directory the names that were not set for it, and claims what
// it needs of the machine for the agent that is about to run. Nothing is touched yet.
func ClaimRoot(c *config.Config, log *slog.Logger) (roots.Owner, error) {
	registry, err := newRegistry()
	if err != nil {
		return roots.Owner{}, err
	}
	saved, err := config.LoadSaved(c.RootDir)
	if err != nil {
		log.Warn("the settings of the last run can't be read: names that were not set are chosen anew", "err", err)
	}
	given := c.PodCIDR.IsValid()
	if err := NameRoot(c, saved); err != nil {
		return roots.Owner{}, err
	}
	claim, err := claimOf(c)
	if err != nil {
		return roots.Owner{}, err
	}
	// What was chosen last may not have been written down: its disk is full.
	last, err := registry.Find(claim.Resolved)
	if err != nil {
		return roots.Owner{}, err
	}
	if claim.Network != nil && !c.PodCIDR.IsValid() && last != nil && last.Network != nil {
		c.PodCIDR, c.Names.PodCIDR = last.Network.PodCIDR, last.Network.PodCIDR
		claim.Network.PodCIDR = c.PodCIDR
	}
	owner, err := registry.Acquire(claim)
	var conflict *roots.ConflictError
	if used, _ := roots.InUse(c.RootDir); errors.As(err, &conflict) && !used && !given && claim.Network != nil && c.RootDir != roots.Default {
		c.PodCIDR = netip.Prefix{} // another root has it by now, and no pod of this root does
		claim.Network = &roots.Network{Bridge: c.Bridge}
		owner, err = registry.Acquire(claim)
	}
	if err := warnUnrecorded(err, log); err != nil {
		return roots.Owner{}, err
	}
	keepPodCIDR(c, owner)
	return owner, nil
}

// claimForTeardown claims what is to be taken down of a root directory, with the settings of
// its last run. What another root has claimed since is left to that one.
func claimForTeardown(c *config.Config, log *slog.Logger) (roots.Owner, error) {
	registry, err := newRegistry()
	if err != nil {
		return roots.Owner{}, err
	}
	dropSharedNames(c)
	if err := NameRoot(c, c); err != nil {
		return roots.Owner{}, err
	}
	claim, err := claimOf(c)
	if err != nil {
		return roots.Owner{}, err
	}
	before, err := registry.Find(claim.Resolved)
	if err != nil {
		return roots.Owner{}, err
	}
	if before != nil {
		claim.NetNS = before.NetNS // its links are there, wherever we are
	}
	owner, lacking, err := registry.AcquireFree(claim)
	if err := warnUnrecorded(err, log); err != nil {
		return roots.Owner{}, err
	}
	for _, err := range lacking {
		log.Warn("this is left alone", "err", err)
	}
	keepPodCIDR(c, owner)
	return owner, nil
}

// releaseRoot gives back what a root directory had on the machine.
func releaseRoot(owner roots.Owner) error {
	registry, err := newRegistry()
	if err != nil {
		return err
	}
	return registry.Release(owner)
}

// podsElsewhere calls do with the directories of pods of the other agents on this machine, while
// no other agent does the same.
func podsElsewhere(owner roots.Owner) func(do func(podsDirs []string) error) error {
	return func(do func([]string) error) error {
		registry, err := newRegistry()
		if err != nil {
			return err
		}
		return registry.WithOtherRoots(owner, func(others []string) error {
			var dirs []string
			for _, root := range others {
				dirs = append(dirs, filepath.Join(root, "pods"))
			}
			return do(dirs)
		})
	}
}

// CheckUsers refuses to take down a root directory whose runtime has pods of others.
func CheckUsers(c *config.Config) error {
	if c.RuntimeEndpoint != "" {
		return nil // which is left alone
	}
	registry, err := newRegistry()
	if err != nil {
		return err
	}
	resolved, err := filepath.EvalSymlinks(c.RootDir)
	if err != nil {
		return fmt.Errorf("find the root directory: %w", err)
	}
	users, err := registry.Users(resolved, bundle.EndpointOf(c.RootDir))
	if err != nil {
		return err
	}
	var errs []error
	for _, u := range users {
		errs = append(errs, fmt.Errorf("pods of root directory %s run in the container runtime of this one: run 'berth down --root-dir %s' first", u.Root, u.Root))
	}
	return errors.Join(errs...)
}

// warnUnrecorded lets a claim count that can't be written down: pods are more important.
func warnUnrecorded(err error, log *slog.Logger) error {
	var unrecorded *roots.NotRecordedError
	if errors.As(err, &unrecorded) {
		log.Warn("agents of other root directories will not know what is ours", "err", err)
		return nil
	}
	return err
}

// NameRoot fills in the names that were not set. saved are the settings of the last run,
// or nil.
func NameRoot(c, saved *config.Config) error {
	resolved, err := filepath.EvalSymlinks(c.RootDir)
	if err != nil {
		return fmt.Errorf("find the root directory: %w", err)
	}
	var before roots.Names
	if saved != nil {
		before = saved.Names
		if before.ID == "" { // of a version in which all roots had the same names
			before = roots.SharedNames(c.RootDir, resolved)
		}
	}
	used, err := roots.InUse(c.RootDir)
	if err != nil {
		return err
	}
	c.Names = roots.NamesOf(c.RootDir, resolved, before, used)
	if c.CgroupRoot == "" {
		c.CgroupRoot = c.Names.CgroupRoot
	}
	if c.Bridge == "" {
		c.Bridge = c.Names.Bridge
	}
	if !c.PodCIDR.IsValid() {
		c.PodCIDR = c.Names.PodCIDR
	}
	return nil
}

// dropSharedNames drops names from the settings of the last run that all roots had in an older version, if
// nothing is left in the root that has them: they are another root's by now.
func dropSharedNames(c *config.Config) {
	older := c.Names.ID == ""
	used, err := roots.InUse(c.RootDir)
	if c.RootDir == roots.Default || used || err != nil || !older && !c.Names.Shared {
		return
	}
	shared := roots.SharedNames(c.RootDir, c.RootDir)
	if c.CgroupRoot == shared.CgroupRoot {
		c.CgroupRoot = ""
	}
	if c.Bridge == shared.Bridge {
		c.Bridge = ""
	}
	if c.PodCIDR == shared.PodCIDR {
		c.PodCIDR = netip.Prefix{}
	}
}

// claimOf lists what an agent with this configuration needs for itself.
func claimOf(c *config.Config) (roots.Claim, error) {
	netns, err := roots.CurrentNetNS()
	if err != nil {
		return roots.Claim{}, err
	}
	claim := roots.Claim{
		Root: c.RootDir, Resolved: c.Names.Root, ID: c.Names.ID, CgroupRoot: c.CgroupRoot, LogsDir: c.PodLogsDir,
		Runtime: c.RuntimeEndpoint, NetNS: netns, Ports: Ports(c), Agent: roots.ThisProcess(),
		SharedCgroup: c.Names.Shared && c.CgroupRoot == c.Names.CgroupRoot,
		SharedBridge: c.Names.Shared && c.Bridge == c.Names.Bridge,
	}
	if c.RuntimeEndpoint == "" {
		claim.Network = &roots.Network{Bridge: c.Bridge, PodCIDR: c.PodCIDR}
	}
	return claim, nil
}

// keepPodCIDR remembers the network that was chosen, so that it stays.
func keepPodCIDR(c *config.Config, owner roots.Owner) {
	if c.PodCIDR.IsValid() || !owner.PodCIDR().IsValid() {
		return
	}
	c.PodCIDR, c.Names.PodCIDR = owner.PodCIDR(), owner.PodCIDR()
}

// Ports returns the addresses and ports on which the agent listens.
func Ports(c *config.Config) []netip.AddrPort {
	var out []netip.AddrPort
	for _, p := range []struct {
		address netip.Addr
		port    int
	}{{c.API.Address, c.API.Port}, {c.API.Address, c.API.ReadOnlyPort}, {c.API.HealthzAddress, c.API.HealthzPort}} {
		if p.port != 0 {
			out = append(out, netip.AddrPortFrom(p.address, uint16(p.port))) // it was checked when it was read
		}
	}
	return out
}
