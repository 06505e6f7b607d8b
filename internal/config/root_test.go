package config

import (
	"net/netip"
	"testing"
)

func TestARootClaimsThePortsOfItsAgent(t *testing.T) {
	c := &Config{RootDir: "/srv/a", RuntimeEndpoint: "unix:///run/containerd/containerd.sock"}
	c.API.HealthzAddress, c.API.HealthzPort = netip.MustParseAddr("127.0.0.1"), 10248
	got := c.RootRequest()
	if got.Root != c.RootDir || got.Runtime != c.RuntimeEndpoint || len(got.Ports) != 1 || got.Ports[0].String() != "127.0.0.1:10248" {
		t.Errorf("got %+v", got)
	}
	got.CgroupRoot = "/mine"
	if c.SetRootNames(got); c.CgroupRoot != "/mine" {
		t.Errorf("got %+v", c)
	}
}
