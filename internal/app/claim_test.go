package app

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/config"
	"berth/internal/host/roots"
)

// newRoot is a root directory of a configuration that sets no names.
func newRoot(t *testing.T) *config.Config {
	t.Helper()
	return &config.Config{RootDir: t.TempDir()}
}

// olderSettings are what an older version wrote down: all roots had the same names.
func olderSettings(root string) *config.Config {
	return &config.Config{RootDir: root, CgroupRoot: "/berth", PodCIDR: netip.MustParsePrefix("10.88.0.0/16")}
}

// occupy leaves in a root what a runtime does.
func occupy(t *testing.T, root string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, "run", "containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func mustName(t *testing.T, c, saved *config.Config) {
	t.Helper()
	if err := NameRoot(c, saved); err != nil {
		t.Fatal(err)
	}
}

func TestARootIsNamedAfterItself(t *testing.T) {
	a, b := newRoot(t), newRoot(t)
	mustName(t, a, nil)
	mustName(t, b, nil)
	if a.CgroupRoot == b.CgroupRoot || a.Bridge == b.Bridge || a.Names.ID == b.Names.ID {
		t.Errorf("got %+v, %+v", a.Names, b.Names)
	}
	// what is set counts
	set := newRoot(t)
	set.CgroupRoot, set.PodCIDR = "/mine", netip.MustParsePrefix("10.1.0.0/16")
	mustName(t, set, nil)
	if set.CgroupRoot != "/mine" || set.PodCIDR.String() != "10.1.0.0/16" || set.Bridge != "berth-"+set.Names.ID {
		t.Errorf("got %+v", set)
	}
	claim, err := claimOf(set)
	if err != nil || claim.CgroupRoot != "/mine" || claim.Network.PodCIDR != set.PodCIDR || claim.SharedCgroup || claim.SharedBridge {
		t.Errorf("got %+v, %v", claim, err)
	}
}

func TestAnUpgradeKeepsTheNamesOfRunningPods(t *testing.T) {
	// given pods that an older version runs in a root of its own
	c := newRoot(t)
	occupy(t, c.RootDir)
	mustName(t, c, olderSettings(c.RootDir))
	if c.CgroupRoot != "/berth" || c.Bridge != "berth0" || c.PodCIDR.String() != "10.88.0.0/16" || !c.Names.Shared {
		t.Errorf("got %+v", c)
	}
	claim, err := claimOf(c)
	if err != nil || !claim.SharedCgroup || !claim.SharedBridge {
		t.Errorf("got %+v, %v", claim, err)
	}
	// when the agent starts once more
	again := &config.Config{RootDir: c.RootDir}
	mustName(t, again, c)
	if again.Names != c.Names || again.CgroupRoot != "/berth" {
		t.Errorf("got %+v", again)
	}
	// and when all has been taken down in between
	if err := os.RemoveAll(filepath.Join(c.RootDir, "run")); err != nil {
		t.Fatal(err)
	}
	again = &config.Config{RootDir: c.RootDir}
	mustName(t, again, c)
	if again.Names.Shared || again.CgroupRoot != "/berth-"+roots.ID(c.RootDir) || again.Bridge == "berth0" || again.PodCIDR.IsValid() {
		t.Errorf("got %+v", again)
	}
}

func TestNothingOfOthersIsTakenDown(t *testing.T) {
	// given a root in which an older version ran, and nothing is left of it
	c := olderSettings(t.TempDir())
	dropSharedNames(c)
	mustName(t, c, c)
	if c.CgroupRoot == "/berth" || c.Bridge == "berth0" || c.PodCIDR.IsValid() {
		t.Errorf("it takes down what is called as that of the default root: %+v", c)
	}
	// given one with something left
	c = olderSettings(t.TempDir())
	occupy(t, c.RootDir)
	dropSharedNames(c)
	mustName(t, c, c)
	claim, err := claimOf(c)
	if err != nil || claim.CgroupRoot != "/berth" || !claim.SharedCgroup || !claim.SharedBridge {
		t.Errorf("got %+v, %v", claim, err)
	}
	// given one whose names were set
	c = olderSettings(t.TempDir())
	c.CgroupRoot = "/mine"
	dropSharedNames(c)
	mustName(t, c, c)
	if c.CgroupRoot != "/mine" {
		t.Errorf("got %+v", c)
	}
}

func TestAGivenRuntimeHasItsOwnNetwork(t *testing.T) {
	c := newRoot(t)
	c.RuntimeEndpoint = "unix:///run/containerd/containerd.sock"
	c.API.HealthzAddress, c.API.HealthzPort = netip.MustParseAddr("127.0.0.1"), 10248
	mustName(t, c, nil)
	claim, err := claimOf(c)
	if err != nil || claim.Network != nil || claim.Runtime != c.RuntimeEndpoint || len(claim.Ports) != 1 || claim.Ports[0].String() != "127.0.0.1:10248" {
		t.Errorf("got %+v, %v", claim, err)
	}
}
