//go:build real

package bundle

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"berth/internal/host/roots"
	"berth/internal/host/roots/rootstest"
)

// bridgeWithPod makes a bridge with one end of a pair of links plugged into it, as a pod has.
func bridgeWithPod(t *testing.T, name string) {
	t.Helper()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(bridge); err != nil {
		t.Fatal(err)
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name + "-p", MasterIndex: bridge.Index}, PeerName: name + "-q"}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, l := range []netlink.Link{pair, bridge} {
			if err := removeLink(l); err != nil {
				t.Error(err)
			}
		}
	})
}

func thereIs(t *testing.T, link string) bool {
	t.Helper()
	_, err := netlink.LinkByName(link)
	if err != nil && !missing(err) {
		t.Fatal(err)
	}
	return err == nil
}

func TestABridgeWithPodsOfOthersStays(t *testing.T) {
	here, err := roots.CurrentNetNS()
	if err != nil {
		t.Fatal(err)
	}
	teardown := func(c roots.Claim) {
		t.Helper()
		c.Root, c.Network = "/test", &roots.Network{Bridge: "lt0", PodCIDR: netip.MustParsePrefix("10.214.0.0/24")}
		rt := &Runtime{cfg: Config{Owner: rootstest.Owner(t, c)}, log: slog.New(slog.DiscardHandler)}
		if err := rt.removeNetwork(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	bridgeWithPod(t, "lt0")

	teardown(roots.Claim{NetNS: here, SharedBridge: true})
	if !thereIs(t, "lt0") || !thereIs(t, "lt0-p") {
		t.Error("the bridge is another root's, too, and was removed")
	}
	teardown(roots.Claim{NetNS: here + 1})
	if !thereIs(t, "lt0") || !thereIs(t, "lt0-p") {
		t.Error("the bridge is in another network namespace, and one of the same name was removed")
	}
	teardown(roots.Claim{NetNS: here})
	if thereIs(t, "lt0") || thereIs(t, "lt0-p") {
		t.Error("the root's own bridge is left")
	}
}
