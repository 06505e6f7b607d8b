// Package rootstest makes owners for tests: of roots on a machine without other agents.
package rootstest

import (
	"net/netip"
	"path/filepath"
	"testing"

	"berth/internal/host/roots"
)

// Owner returns the owner of a claim. Fields that the claim leaves out get the values of some root.
func Owner(t testing.TB, c roots.Claim) roots.Owner {
	t.Helper()
	if c.Root == "" {
		c.Root = "/test"
	}
	if c.ID == "" {
		c.ID = roots.ID(c.Root)
	}
	c.Resolved = c.Root
	r := roots.Registry{
		Dir:      filepath.Join(t.TempDir(), "registry"),
		Occupied: func(string) (bool, error) { return false, nil },
		Networks: func() ([]netip.Prefix, error) { return nil, nil },
		Running:  func(roots.Process) bool { return false },
	}
	o, err := r.Acquire(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
