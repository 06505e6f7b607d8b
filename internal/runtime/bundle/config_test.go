package bundle

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/host/roots"
	"berth/internal/host/roots/rootstest"
)

func testPaths(t *testing.T, root string) paths {
	t.Helper()
	p, err := newPaths(root, "/usr/libexec/berth")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ownerOf owns a network on the root directory.
func ownerOf(t *testing.T, root, bridge, podCIDR string) roots.Owner {
	t.Helper()
	return rootstest.Owner(t, roots.Claim{Root: root, Network: &roots.Network{Bridge: bridge, PodCIDR: netip.MustParsePrefix(podCIDR)}})
}

func valid(t *testing.T) Config {
	t.Helper()
	return Config{
		State: newState(t, slog.New(slog.DiscardHandler)),
		Owner: ownerOf(t, "/var/lib/berth", "berth0", "10.88.0.0/16"), Libexec: "/usr/libexec/berth",
		Ready: func(context.Context, string) error { return nil }, Answers: func(context.Context, string) error { return nil },
		HasImage: func(context.Context, string, string) (bool, error) { return true, nil }, Log: slog.New(slog.DiscardHandler),
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"relative root":  {func(c *Config) { c.Owner = ownerOf(t, "berth", "berth0", "10.88.0.0/16") }, "absolute"},
		"nobody owns it": {func(c *Config) { c.Owner = roots.Owner{} }, "absolute"},
		"root is all":    {func(c *Config) { c.Owner = ownerOf(t, "/", "berth0", "10.88.0.0/16") }, "must not be /"},
		"long root": {func(c *Config) {
			c.Owner = ownerOf(t, "/var/lib/a-directory-with-a-long-name", "berth0", "10.88.0.0/16")
		}, "has 37 bytes and may have 36"},
		"relative libexec": {func(c *Config) { c.Libexec = "bin" }, "absolute"},
		"no pod range":     {func(c *Config) { c.Owner = rootstest.Owner(t, roots.Claim{Root: "/r"}) }, "pod CIDR is missing"},
		"tiny pod range":   {func(c *Config) { c.Owner = ownerOf(t, "/r", "b", "10.0.0.0/31") }, "too few"},
		"odd pod range":    {func(c *Config) { c.Owner = ownerOf(t, "/r", "b", "127.0.0.0/8") }, "can not be used"},
		"long bridge":      {func(c *Config) { c.Owner = ownerOf(t, "/r", "a-bridge-too-far", "10.88.0.0/16") }, "15 bytes"},
		"odd bridge":       {func(c *Config) { c.Owner = ownerOf(t, "/r", "a/b", "10.88.0.0/16") }, "slashes"},
		"no bridge":        {func(c *Config) { c.Owner = ownerOf(t, "/r", "", "10.88.0.0/16") }, "not a link name"},
		"negative timeout": {func(c *Config) { c.PullTimeout = -1 }, "pull timeout"},
		"no silence":       {func(c *Config) { c.Silence = time.Millisecond }, "silent for longer"},
		"no readiness":     {func(c *Config) { c.Ready = nil }, "readiness"},
		"no images":        {func(c *Config) { c.HasImage = nil }, "one for images"},
		"no question":      {func(c *Config) { c.Answers = nil }, "always answered"},
		"no log":           {func(c *Config) { c.Log = nil }, "logger"},
		"no state":         {func(c *Config) { c.State = nil }, "state"},
	} {
		t.Run(name, func(t *testing.T) {
			c := valid(t)
			test.change(&c)
			_, err := New(c)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got error %v, want one with %q", err, test.says)
			}
		})
	}
}

func TestEndpointIsBelowTheRoot(t *testing.T) {
	c := valid(t)
	root := "/var/lib/another-directory-of-this-size"[:36] // the longest that fits
	c.Owner = ownerOf(t, root, "berth0", "10.88.0.0/16")
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if want := "unix://" + root + "/run/containerd.sock"; r.Endpoint() != want {
		t.Errorf("got %s, want %s", r.Endpoint(), want)
	}
}

func TestContainerdConfigStaysBelowTheRoot(t *testing.T) {
	p := testPaths(t, `/srv/be"rth`)
	for _, test := range []struct {
		can        capabilities
		want, less []string
	}{
		{capabilities{lowerOOM: true, label: true}, []string{"oom_score = -999", "restrict_oom_score_adj = false", "enable_selinux = true"}, nil},
		{capabilities{}, []string{"restrict_oom_score_adj = true"}, []string{"oom_score =", "enable_selinux"}},
	} {
		out, err := renderConfig(p, test.can, 90*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		config := string(out)
		for _, line := range append(
			test.want, "version = 3", `root = "/srv/be\"rth/containerd"`, `state = "/srv/be\"rth/run/containerd"`,
			`address = "/srv/be\"rth/run/containerd.sock"`, `socket_dir = "/srv/be\"rth/run/s"`, `Root = "/srv/be\"rth/run/runc"`,
			`conf_dir = "/srv/be\"rth/cni/conf"`, `bin_dirs = ["/usr/libexec/berth/cni"]`, `BinaryName = "/usr/libexec/berth/runc"`,
			`sandbox = "localhost/berth-pause:1"`, "SystemdCgroup = false", "netns_mounts_under_state_dir = true",
			`image_pull_progress_timeout = "1m30s"`, "use_local_image_pull = true",
		) {
			if !strings.Contains(config, "\n"+line+"\n") {
				t.Errorf("%+v: no line %s in\n%s", test.can, line, config)
			}
		}
		for _, word := range test.less {
			if strings.Contains(config, word) {
				t.Errorf("containerd is configured with %s where it can't", word)
			}
		}
	}
}

func TestCapabilityIsReadFromStatus(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t000001fffeffffff\n": false,
		"CapEff:\t0000000001000000\n":                                      true,
		"CapEff:\t0000000000000000\n":                                      false,
	} {
		if got, err := hasCapability(status, capSysResource); err != nil || got != want {
			t.Errorf("%q: got %v, %v", status, got, err)
		}
	}
	for _, status := range []string{"", "CapEff:\tx\n"} {
		if _, err := hasCapability(status, capSysResource); err == nil {
			t.Errorf("%q was understood", status)
		}
	}
}

func TestNetworkIsAChainOfPlugins(t *testing.T) {
	for cidr, route := range map[string]string{"10.88.3.4/16": "0.0.0.0/0", "fd00::/64": "::/0"} {
		prefix := netip.MustParsePrefix(cidr)
		out, err := renderNetwork(testPaths(t, "/var/lib/berth"), ownerOf(t, "/var/lib/berth", "berth0", cidr))
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Name    string
			Plugins []struct {
				Type, Bridge, Backend  string
				IsGateway, HairpinMode bool
				IPMasq                 bool
				Capabilities           map[string]bool
				IPAM                   ipam
			}
		}
		if err := json.Unmarshal(out, &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Plugins) != 3 || list.Name == "" {
			t.Fatalf("got %s", out)
		}
		bridge, ports, bandwidth := list.Plugins[0], list.Plugins[1], list.Plugins[2]
		if bridge.Type != "bridge" || bridge.Bridge != "berth0" || !bridge.IsGateway || !bridge.IPMasq || !bridge.HairpinMode {
			t.Errorf("bridge: %+v", bridge)
		}
		if a := bridge.IPAM; a.DataDir != "/var/lib/berth/cni/ipam" || a.Ranges[0][0].Subnet != prefix.Masked().String() || a.Routes[0].Dst != route {
			t.Errorf("addresses: %+v", a)
		}
		if ports.Type != "portmap" || !ports.Capabilities["portMappings"] || ports.Backend != "iptables" {
			t.Errorf("ports: %+v", ports)
		}
		if bandwidth.Type != "bandwidth" || !bandwidth.Capabilities["bandwidth"] {
			t.Errorf("bandwidth: %+v", bandwidth)
		}
	}
}

func TestIncompleteBundleIsNamed(t *testing.T) {
	p, err := newPaths("/var/lib/berth", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.checkPrograms(); err == nil || !strings.Contains(err.Error(), p.containerd) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(p.containerd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.checkPrograms(); err == nil || !strings.Contains(err.Error(), "is not a program") {
		t.Errorf("got %v", err)
	}
}

func TestFilesAreWrittenOnlyWhenTheyChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	before := func() os.FileInfo {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if err := writeIfChanged(path, []byte("a")); err != nil {
		t.Fatal(err)
	}
	first := before()
	if err := writeIfChanged(path, []byte("a")); err != nil || !os.SameFile(first, before()) {
		t.Errorf("the same content was written again (%v)", err)
	}
	if err := writeIfChanged(path, []byte("b")); err != nil || os.SameFile(first, before()) {
		t.Errorf("a change was not put in place of the old file (%v)", err)
	}
}
