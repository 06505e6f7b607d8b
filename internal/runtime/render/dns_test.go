package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestResolvers(t *testing.T) {
	extra := &v1.PodDNSConfig{
		Nameservers: []string{"198.51.100.1", "192.0.2.53"}, Searches: []string{"shop", "lan"},
		Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}, {Name: "rotate"}},
	}
	machine := &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"lan"}, Options: []string{"ndots:1"}}
	cluster := &runtimeapi.DNSConfig{
		Servers: []string{"10.0.0.10"}, Searches: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan"}, Options: []string{"ndots:5"},
	}
	alone, joined := node, node
	joined.InCluster, joined.ClusterDNS, joined.ClusterDomain = true, []string{"10.0.0.10"}, "cluster.local"
	lacking := joined
	lacking.ClusterDNS = nil
	for name, test := range map[string]struct {
		node        Node
		policy      v1.DNSPolicy
		hostNetwork bool
		extra       *v1.PodDNSConfig
		want        *runtimeapi.DNSConfig
		notice      string
	}{
		"default":                            {node: joined, policy: v1.DNSDefault, want: machine},
		"cluster first, without a cluster":   {node: alone, policy: v1.DNSClusterFirst, want: machine},
		"cluster first":                      {node: joined, policy: v1.DNSClusterFirst, want: cluster},
		"nothing said":                       {node: joined, want: cluster},
		"cluster first, and nobody to ask":   {node: lacking, policy: v1.DNSClusterFirst, want: machine, notice: "MissingClusterDNS"},
		"cluster first, on the host":         {node: joined, policy: v1.DNSClusterFirst, hostNetwork: true, want: machine},
		"cluster first, on the host, nobody": {node: lacking, policy: v1.DNSClusterFirst, hostNetwork: true, want: machine},
		"cluster first, even on the host":    {node: joined, policy: v1.DNSClusterFirstWithHostNet, hostNetwork: true, want: cluster},
		"cluster first, even there, nobody":  {node: lacking, policy: v1.DNSClusterFirstWithHostNet, hostNetwork: true, want: machine, notice: "MissingClusterDNS"},
		"default and more": {node: joined, policy: v1.DNSDefault, extra: extra, want: &runtimeapi.DNSConfig{
			Servers: []string{"192.0.2.53", "198.51.100.1"}, Searches: []string{"lan", "shop"}, Options: []string{"ndots:2", "rotate"},
		}},
		"none but its own": {node: joined, policy: v1.DNSNone, extra: extra, want: &runtimeapi.DNSConfig{
			Servers: []string{"198.51.100.1", "192.0.2.53"}, Searches: []string{"shop", "lan"}, Options: []string{"ndots:2", "rotate"},
		}},
		"none at all": {node: joined, policy: v1.DNSNone, want: &runtimeapi.DNSConfig{}},
		"too many servers": {node: joined, policy: v1.DNSDefault, extra: &v1.PodDNSConfig{Nameservers: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}}, want: &runtimeapi.DNSConfig{
			Servers: []string{"192.0.2.53", "192.0.2.1", "192.0.2.2"}, Searches: []string{"lan"}, Options: []string{"ndots:1"},
		}, notice: "DNSConfigForming"},
	} {
		t.Run(name, func(t *testing.T) {
			p := webPod()
			p.Spec.DNSPolicy, p.Spec.DNSConfig, p.Spec.HostNetwork = test.policy, test.extra, test.hostNetwork
			got, notices := Resolver(p, test.node)
			same(t, got, test.want)
			switch {
			case test.notice == "" && len(notices) > 0, test.notice != "" && (len(notices) != 1 || notices[0].Reason != test.notice):
				t.Errorf("reported: %v", notices)
			}
		})
	}
	if len(node.DNS.Servers) != 1 || node.DNS.Options[0] != "ndots:1" {
		t.Error("the machine's own settings were changed")
	}
}

func TestSearchesAreCutToWhatIsRead(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("d%d", i)
	}
	long := make([]string, 20)
	for i := range long {
		long[i] = fmt.Sprintf("%02d", i) + strings.Repeat("x", 198) // 10 fit into 2048 with their spaces
	}
	for name, test := range map[string]struct {
		searches []string
		want     int
	}{
		"as many as may be": {many[:32], 32},
		"too many":          {many, 32},
		"too long":          {long, 10},
		"one too long":      {append([]string{strings.Repeat("x", 254)}, many[:3]...), 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := webPod()
			p.Spec.DNSPolicy, p.Spec.DNSConfig = v1.DNSNone, &v1.PodDNSConfig{Searches: test.searches}
			got, notices := Resolver(p, node)
			if len(got.Searches) != test.want || len(strings.Join(got.Searches, " ")) > 2048 {
				t.Errorf("%d are left: %v", len(got.Searches), got.Searches)
			}
			if noticed := len(notices) == 1 && notices[0].Reason == "DNSConfigForming"; noticed != (test.want < len(test.searches)) {
				t.Errorf("reported: %v", notices)
			}
		})
	}
}

func TestLimitsOfTheMachinesResolver(t *testing.T) {
	if got := (DNS{Servers: []string{"1", "2", "3"}, Searches: []string{"a"}}).CheckLimits(); len(got) != 0 {
		t.Errorf("got %q for settings that fit", got)
	}
	d := DNS{Servers: []string{"1", "2", "3", "4"}, Searches: slices.Repeat([]string{"a"}, maxSearches+1)}
	got := d.CheckLimits()
	if len(got) != 2 || !strings.HasPrefix(got[0], "Nameserver limits") || !strings.HasPrefix(got[1], "Search Line limits") || len(d.Servers) != 4 {
		t.Errorf("got %q of %v", got, d)
	}
}
