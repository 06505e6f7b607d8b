package roots

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// olderRequest is the request of an older version, in which all roots had the same names.
func olderRequest(root string) Request {
	return Request{Root: root, CgroupRoot: "/berth", PodCIDR: netip.MustParsePrefix("10.88.0.0/16")}
}

// occupy makes the files of a running runtime in a root.
func occupy(t *testing.T, root string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, "run", "containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func mustName(t *testing.T, r Request, before *Names) Request {
	t.Helper()
	named, err := r.Named(before)
	if err != nil {
		t.Fatal(err)
	}
	return named
}

// claimFor returns the claim of a request in some network namespace.
func claimFor(r Request) Claim { return r.claim(1, Process{PID: 1}) }

// mustNameForTeardown names the request of a root that is to be taken down.
func mustNameForTeardown(t *testing.T, r Request) Request {
	t.Helper()
	used, err := InUse(r.Root)
	if err != nil {
		t.Fatal(err)
	}
	r = r.withoutSharedNames(used)
	return mustName(t, r, &r.Names)
}

func TestARootIsNamedAfterItself(t *testing.T) {
	a, b := mustName(t, Request{Root: t.TempDir()}, nil), mustName(t, Request{Root: t.TempDir()}, nil)
	if a.CgroupRoot == b.CgroupRoot || a.Bridge == b.Bridge || a.Names.ID == b.Names.ID {
		t.Errorf("got %+v, %+v", a.Names, b.Names)
	}
	// what is set counts
	set := mustName(t, Request{Root: t.TempDir(), CgroupRoot: "/mine", PodCIDR: netip.MustParsePrefix("10.1.0.0/16")}, nil)
	if set.CgroupRoot != "/mine" || set.PodCIDR.String() != "10.1.0.0/16" || set.Bridge != "berth-"+set.Names.ID {
		t.Errorf("got %+v", set)
	}
	if claim := claimFor(set); claim.CgroupRoot != "/mine" || claim.Network.PodCIDR != set.PodCIDR || claim.SharedCgroup || claim.SharedBridge {
		t.Errorf("got %+v", claim)
	}
}

func TestAnUpgradeKeepsTheNamesOfRunningPods(t *testing.T) {
	// given pods that an older version runs in a root of its own
	root := t.TempDir()
	occupy(t, root)
	first := mustName(t, Request{Root: root}, &Names{})
	if first.CgroupRoot != "/berth" || first.Bridge != "berth0" || first.PodCIDR.String() != "10.88.0.0/16" || !first.Names.Shared {
		t.Errorf("got %+v", first)
	}
	if claim := claimFor(first); !claim.SharedCgroup || !claim.SharedBridge {
		t.Errorf("got %+v", claim)
	}
	// when the agent starts once more
	again := mustName(t, Request{Root: root}, &first.Names)
	if again.Names != first.Names || again.CgroupRoot != "/berth" {
		t.Errorf("got %+v", again)
	}
	// and when all has been taken down in between
	if err := os.RemoveAll(filepath.Join(root, "run")); err != nil {
		t.Fatal(err)
	}
	again = mustName(t, Request{Root: root}, &first.Names)
	if again.Names.Shared || again.CgroupRoot != "/berth-"+ID(root) || again.Bridge == "berth0" || again.PodCIDR.IsValid() {
		t.Errorf("got %+v", again)
	}
}

func TestNothingOfOthersIsTakenDown(t *testing.T) {
	// given a root in which an older version ran, and nothing is left of it
	r := mustNameForTeardown(t, olderRequest(t.TempDir()))
	if r.CgroupRoot == "/berth" || r.Bridge == "berth0" || r.PodCIDR.IsValid() {
		t.Errorf("it takes down what is called as that of the default root: %+v", r)
	}
	// given one with something left
	r = olderRequest(t.TempDir())
	occupy(t, r.Root)
	if claim := claimFor(mustNameForTeardown(t, r)); claim.CgroupRoot != "/berth" || !claim.SharedCgroup || !claim.SharedBridge {
		t.Errorf("got %+v", claim)
	}
	// given one whose names were set
	r = olderRequest(t.TempDir())
	r.CgroupRoot = "/mine"
	if r = mustNameForTeardown(t, r); r.CgroupRoot != "/mine" {
		t.Errorf("got %+v", r)
	}
}

func TestAGivenRuntimeHasItsOwnNetwork(t *testing.T) {
	r := mustName(t, Request{Root: t.TempDir(), Runtime: "unix:///run/containerd/containerd.sock"}, nil)
	if claim := claimFor(r); claim.Network != nil || claim.Runtime != r.Runtime {
		t.Errorf("got %+v", claim)
	}
}
