package app

import (
	"log/slog"
	"path/filepath"

	"berth/internal/config"
	"berth/internal/host/roots"
	"berth/internal/pods/cgroup"
	"berth/internal/runtime/bundle"
)

// newRegistry makes the registry of the claims of all agents on this machine.
func newRegistry() (roots.Registry, error) {
	tree, err := cgroup.Open()
	if err != nil {
		return roots.Registry{}, err
	}
	return roots.Registry{Dir: roots.RegistryDir, Occupied: tree.OccupiedName, Networks: roots.MachineNetworks, Running: roots.ProcessRuns}, nil
}

// ClaimRoot claims the cgroups, links, addresses and ports of a root directory for the agent that is about to
// run, and sets the names in c that were not set. It changes nothing but the registry.
func ClaimRoot(c *config.Config, log *slog.Logger) (roots.Owner, error) {
	registry, err := newRegistry()
	if err != nil {
		return roots.Owner{}, err
	}
	saved, err := config.LoadSaved(c.RootDir)
	if err != nil {
		log.Warn("the settings of the last run can't be read: names that were not set are chosen anew", "err", err)
	}
	var before *roots.Names
	if saved != nil {
		before = &saved.Names
	}
	named, owner, err := registry.AcquireForRun(c.RootRequest(), before, log)
	if err != nil {
		return roots.Owner{}, err
	}
	c.SetRootNames(named)
	return owner, nil
}

// claimForTeardown claims a root directory that is to be taken down. c has the settings of its last run.
func claimForTeardown(c *config.Config, log *slog.Logger) (roots.Owner, error) {
	registry, err := newRegistry()
	if err != nil {
		return roots.Owner{}, err
	}
	named, owner, err := registry.AcquireForTeardown(c.RootRequest(), log)
	if err != nil {
		return roots.Owner{}, err
	}
	c.SetRootNames(named)
	return owner, nil
}

// releaseRoot removes the claims of a root directory from the registry.
func releaseRoot(owner roots.Owner) error {
	registry, err := newRegistry()
	if err != nil {
		return err
	}
	return registry.Release(owner)
}

// podsElsewhere calls do with the pod directories of the other agents on this machine. It is
// exclusive: no other agent of the machine is in do at the same time.
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

// CheckUsers refuses to take down a root directory whose runtime has pods of other agents.
func CheckUsers(c *config.Config) error {
	if c.RuntimeEndpoint != "" {
		return nil // a runtime that berth does not manage is left alone
	}
	registry, err := newRegistry()
	if err != nil {
		return err
	}
	return registry.CheckUsers(c.RootDir, bundle.EndpointOf(c.RootDir))
}
