package render

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestHostNames(t *testing.T) {
	long := strings.Repeat("a", 62)
	for name, test := range map[string]struct {
		edit func(*v1.Pod)
		want string
		says string // of the error
	}{
		"the pod's name":         {edit: func(*v1.Pod) {}, want: "web"},
		"one of its own":         {edit: func(p *v1.Pod) { p.Spec.Hostname = "shop" }, want: "shop"},
		"the machine's":          {edit: func(p *v1.Pod) { p.Spec.HostNetwork, p.Spec.Hostname = true, "shop" }},
		"as long as it may be":   {edit: func(p *v1.Pod) { p.Name = long + "b" }, want: long + "b"},
		"too long":               {edit: func(p *v1.Pod) { p.Name = long + "bc" }, want: long + "b"},
		"cut at a dash":          {edit: func(p *v1.Pod) { p.Name = long + "-c" }, want: long},
		"cut at dots and dashes": {edit: func(p *v1.Pod) { p.Name = long[:60] + ".-.c" }, want: long[:60]},
		"in a subdomain":         {edit: func(p *v1.Pod) { p.Spec.Subdomain = "db" }, want: "web"},
		"as a whole": {edit: func(p *v1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "one", "db", new(true)
		}, want: "one.db.shop.svc.cluster.local"},
		"as a whole, without one": {edit: func(p *v1.Pod) { p.Spec.SetHostnameAsFQDN = new(true) }, want: "web"},
		"as a whole, too long": {edit: func(p *v1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("x", 40), "db", new(true)
		}, says: "failed to construct FQDN from pod hostname and cluster domain, FQDN " + strings.Repeat("x", 40) +
			".db.shop.svc.cluster.local is too long (64 characters is the max, 66 characters requested)"},
		"overridden": {edit: func(p *v1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.HostnameOverride = "one", "db", new("my.other.name")
		}, want: "my.other.name"},
	} {
		p := webPod()
		test.edit(p)
		got, err := hostname(p, Node{ClusterDomain: "cluster.local"})
		if got != test.want || (err == nil) != (test.says == "") || (err != nil && err.Error() != test.says) {
			t.Errorf("%s: got %q, %v, want %q %s", name, got, err, test.want, test.says)
		}
	}
}

func TestTheDomainOfAPodWithoutAClusterDomain(t *testing.T) {
	p := webPod()
	p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "db", new(true)
	for inCluster, want := range map[bool]string{true: "web.db.shop.svc.", false: "web.db.shop.svc"} {
		n := Node{InCluster: inCluster}
		got, err := hostname(p, n)
		hosts, hostsErr := HostsFile(p, []string{"10.1.0.7"}, "", n)
		if got != want || err != nil || hostsErr != nil || !strings.Contains(hosts, "\n10.1.0.7\t"+want+"\tweb\n") {
			t.Errorf("in a cluster: %t: the name is %q, and the file\n%s, want %s (%v, %v)", inCluster, got, hosts, want, err, hostsErr)
		}
	}
}

const ownHosts = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"

func TestTheFileOfHostNames(t *testing.T) {
	n := Node{ClusterDomain: "cluster.local"}
	p := webPod()
	for name, test := range map[string]struct {
		edit    func(*v1.PodSpec)
		ips     []string
		machine string
		want    string // its end
	}{
		"no address yet": {func(*v1.PodSpec) {}, nil, "", "fe00::2\tip6-allrouters\n"},
		"two addresses":  {func(*v1.PodSpec) {}, []string{"10.1.0.7", "fd00::7"}, "", "ip6-allrouters\n10.1.0.7\tweb\nfd00::7\tweb\n"},
		"a subdomain": {
			func(s *v1.PodSpec) { s.Subdomain = "db" }, []string{"10.1.0.7"}, "", "\n10.1.0.7\tweb.db.shop.svc.cluster.local\tweb\n",
		},
		"aliases": {func(s *v1.PodSpec) {
			s.HostAliases = []v1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"a", "b.c"}}, {IP: "fd00::1", Hostnames: []string{"d"}}}
		}, []string{"10.1.0.7"}, "", "\n10.1.0.7\tweb\n\n# Entries added by HostAliases.\n192.0.2.1\ta\tb.c\nfd00::1\td\n"},
		"the machine's": {
			func(s *v1.PodSpec) { s.HostNetwork = true },
			[]string{"192.0.2.9"},
			"127.0.0.1 localhost\n192.0.2.9 edge",
			"# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n192.0.2.9 edge\n",
		},
		"the machine's, and aliases": {
			func(s *v1.PodSpec) {
				s.HostNetwork = true
				s.HostAliases = []v1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"a"}}}
			}, nil, "127.0.0.1 localhost\n",
			"(host network).\n127.0.0.1 localhost\n\n# Entries added by HostAliases.\n192.0.2.1\ta\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := p.DeepCopy()
			test.edit(&p.Spec)
			got, err := HostsFile(p, test.ips, test.machine, n)
			if err != nil || !strings.HasSuffix(got, test.want) {
				t.Errorf("got %v\n%s", err, got)
			}
			if !p.Spec.HostNetwork && !strings.HasPrefix(got, strings.ReplaceAll(ownHosts, " ip6", "\tip6")) {
				t.Errorf("it begins with\n%s", got)
			}
		})
	}
}

// Nothing that a pod says may become a line of its own.
func FuzzAliasesStayInTheirLines(f *testing.F) {
	f.Add("192.0.2.1", "a")
	f.Add("192.0.2.1\n127.0.0.1 bank", "a")
	f.Add("fd00::1%\n0", "b")
	f.Add("192.0.2.1", "a\n127.0.0.1\tbank")
	f.Add("192.0.2.1", "a#")
	f.Fuzz(func(t *testing.T, ip, name string) {
		p := webPod()
		p.Spec.HostAliases = []v1.HostAlias{{IP: ip, Hostnames: []string{name}}}
		got, err := HostsFile(p, nil, "", node)
		if err != nil {
			return
		}
		_, added, _ := strings.Cut(got, "# Entries added by HostAliases.\n")
		if strings.Count(added, "\n") != 1 || len(strings.Fields(added)) != 2 {
			t.Errorf("%q and %q became %q", ip, name, added)
		}
	})
}
