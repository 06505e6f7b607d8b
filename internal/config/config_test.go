package config

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/cluster/shutdown"
	"berth/internal/core/plan"
)

var machine = Machine{Hostname: "Box", Processors: 2, WorkDir: "/home/me"}

func TestDefaults(t *testing.T) {
	c, err := Load(DefaultRootDir, Flags{}, nil, machine)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		RootDir: "/var/lib/berth", NodeName: "box", ManifestDir: "/etc/berth/manifests",
		ManifestCheck: 20 * time.Second, URLCheck: 20 * time.Second, RuntimeTimeout: 2 * time.Minute,
		PodLogsDir: "/var/log/pods", LogLinksDir: "/var/log/containers",
		StartSlots: 2, ParallelPulls: 4, Backoff: plan.DefaultBackoff, ResolvConf: "/etc/resolv.conf", OOMScore: -999,
		Images: Images{
			PullQPS: 5, PullBurst: 10, GCHigh: 85, GCLow: 80, GCMinAge: 2 * time.Minute, Verify: kubeletconfig.NeverVerifyPreloadedImages,
		},
		Pressure: Pressure{
			Memory: Threshold{Amount: 100 << 20}, Disk: Threshold{Percent: 10}, Inodes: Threshold{Percent: 5},
			ImageDisk: Threshold{Percent: 15}, ImageInodes: Threshold{Percent: 5}, Relief: 5 * time.Minute,
		},
		Cluster: Cluster{
			Register: true, MaxPods: 110, Lease: 40 * time.Second, StatusUpdate: 10 * time.Second, StatusReport: 5 * time.Minute, QPS: 50, Burst: 100,
			CertDir: "/var/lib/berth/pki", EventQPS: 50, EventBurst: 100, MaxImages: 50,
		},
		API: API{
			Address: netip.MustParseAddr("0.0.0.0"), HealthzAddress: netip.MustParseAddr("127.0.0.1"), HealthzPort: 10248, MinTLS: tls.VersionTLS12,
			TokenTTL: 2 * time.Minute, AlwaysAllow: true, AllowedTTL: 5 * time.Minute, DeniedTTL: 30 * time.Second,
			Debugging: true, SystemLogs: true, Profiling: true, DebugFlags: true, StreamIdle: 4 * time.Hour,
		},
	}
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("got  %+v\nwant %+v", *c, want)
	}
}

func TestHowANodeIsToBeInItsCluster(t *testing.T) {
	file := []byte(header + `
kubeReserved: {cpu: 100m, memory: 1Gi}
systemReserved: {cpu: 200m}
shutdownGracePeriod: 30s
shutdownGracePeriodCriticalPods: 10s
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
eventRecordQPS: 0
nodeStatusMaxImages: -1
`)
	c, err := Load("/r", Flags{Kubeconfig: "k", Bootstrap: "b", Taints: []string{"gpu=yes:NoSchedule", "new:NoExecute"}}, file, machine)
	if err != nil {
		t.Fatal(err)
	}
	if cpu := c.Reserved.Cpu().String(); cpu != "300m" {
		t.Errorf("%s of the processors are reserved", cpu)
	}
	if want := []shutdown.Period{{Priority: 0, For: 20 * time.Second}, {Priority: 2_000_000_000, For: 10 * time.Second}}; !slices.Equal(c.Shutdown, want) {
		t.Errorf("shutdown %v, want %v", c.Shutdown, want)
	}
	want := []v1.Taint{{Key: "gpu", Value: "yes", Effect: v1.TaintEffectNoSchedule}, {Key: "new", Effect: v1.TaintEffectNoExecute}}
	if !reflect.DeepEqual(c.Cluster.Taints, want) {
		t.Errorf("taints %v", c.Cluster.Taints)
	}
	if !c.Cluster.Rotate || c.Cluster.Bootstrap != "/home/me/b" || c.Cluster.EventQPS >= 0 || c.Cluster.MaxImages != -1 || len(c.NotHonoured) != 0 {
		t.Errorf("got %+v", c)
	}
}

func TestHowContainersAreLimited(t *testing.T) {
	file := []byte(header + `
cpuCFSQuota: false
cpuCFSQuotaPeriod: 10ms
podPidsLimit: 50
oomScoreAdj: 0
seccompDefault: true
userNamespaces: {idsPerPod: 131072}
resolvConf: ""
`)
	c, err := Load("/r", Flags{}, file, machine)
	if err != nil {
		t.Fatal(err)
	}
	if !c.NoCPUQuota || c.CPUPeriod != 10*time.Millisecond || c.PodPIDs != 50 || c.OOMScore != 0 || !c.SeccompDefault || c.IDsPerPod != 131072 || c.ResolvConf != "" {
		t.Errorf("got %+v", c)
	}
	if c, err = Load("/r", Flags{}, []byte(header+"podPidsLimit: -1\n"), machine); err != nil || c.PodPIDs != 0 {
		t.Errorf("no limit: %+v, %v", c, err)
	}
}

// For the kubelet, the top is where it makes a cgroup for all pods.
func TestTheTopIsWhereTheCgroupOfPodsIsMade(t *testing.T) {
	c, err := Load("/r", Flags{}, []byte(header+"cgroupRoot: /\n"), machine)
	if err != nil || c.CgroupRoot != "" { // as if it were not set
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestWhichCgroupsAreEnforced(t *testing.T) {
	for text, want := range map[string]struct {
		lent         bool
		kube, system Enforcement
		shown        []string
	}{
		"":                               {shown: []string{"pods"}},
		"enforceNodeAllocatable: [pods]": {shown: []string{"pods"}},
		"enforceNodeAllocatable: []":     {lent: true, shown: []string{"none"}},
		"enforceNodeAllocatable: [none]": {lent: true, shown: []string{"none"}},
		"enforceNodeAllocatable: [pods, system-reserved, kube-reserved-compressible]\nsystemReservedCgroup: /system\nkubeReservedCgroup: /kube": {
			kube: EnforceCompressible, system: EnforceAll, shown: []string{"kube-reserved-compressible", "pods", "system-reserved"},
		},
		"enforceNodeAllocatable: [kube-reserved]\nkubeReservedCgroup: /kube": {lent: true, kube: EnforceAll, shown: []string{"kube-reserved"}},
	} {
		c, err := Load("/r", Flags{}, []byte(header+text+"\n"), machine)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if c.LendReserved != want.lent || c.Cgroups.KubeReserved.Enforce != want.kube || c.Cgroups.SystemReserved.Enforce != want.system || len(c.NotHonoured) > 0 {
			t.Errorf("%q: got %+v, not honoured: %q", text, c.Cgroups, c.NotHonoured)
		}
		if got := c.Kubelet().EnforceNodeAllocatable; !slices.Equal(got, want.shown) {
			t.Errorf("%q: it is shown as %v", text, got)
		}
	}
}

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func TestTheFileIsHonouredAndFlagsWin(t *testing.T) {
	file := []byte(header + `
staticPodPath: /pods
fileCheckFrequency: 5s
podCIDR: 10.1.0.0/24
cgroupRoot: /mine
maxParallelImagePulls: 7
serializeImagePulls: false
crashLoopBackOff: {maxContainerRestartPeriod: 4s}
logging: {verbosity: 3}
`)
	c, err := Load("/srv/berth", Flags{PodCIDR: "10.2.0.0/24", Hostname: "node-1"}, file, machine)
	if err != nil {
		t.Fatal(err)
	}
	if c.ManifestDir != "/pods" || c.ManifestCheck != 5*time.Second || c.CgroupRoot != "/mine" || c.ParallelPulls != 7 || c.Verbosity != 3 {
		t.Errorf("the file is not honoured: %+v", c)
	}
	if c.Backoff.Max != 4*time.Second || c.Backoff.Initial != 4*time.Second {
		t.Errorf("backoff %+v", c.Backoff)
	}
	if c.PodCIDR != netip.MustParsePrefix("10.2.0.0/24") || c.NodeName != "node-1" {
		t.Errorf("flags must win: %+v", c)
	}
	if c.PodLogsDir != "/srv/berth/log/pods" {
		t.Errorf("logs belong below a root of its own, not in %s", c.PodLogsDir)
	}
	if len(c.NotHonoured) != 0 {
		t.Errorf("not honoured: %v", c.NotHonoured)
	}
}

func TestFieldsWithoutEffectAreNamed(t *testing.T) {
	c, err := Load("/r", Flags{}, []byte(header+"volumePluginDir: /p\nlogging: {verbosity: 1, format: json}\nevictionSoft: {memory.available: 1Gi}\n"), machine)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"evictionSoft", "logging.format", "volumePluginDir"}; !slices.Equal(c.NotHonoured, want) {
		t.Errorf("got %v, want %v", c.NotHonoured, want)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		flags Flags
		file  string
		want  []string
	}{
		"an unknown field":    {file: header + "maxPodz: 3\n", want: []string{"maxPodz", "line 3"}},
		"a doubled field":     {file: header + "maxPods: 3\nmaxPods: 4\n", want: []string{"maxPods", "line 4"}},
		"another kind":        {file: "apiVersion: v1\nkind: Pod\n", want: []string{"v1 Pod", "KubeletConfiguration"}},
		"two documents":       {file: header + "---\n" + header, want: []string{"2 documents"}},
		"no YAML":             {file: header + "a: [\n", want: []string{"line"}},
		"a bad node name":     {flags: Flags{Hostname: "not a name"}, want: []string{"--hostname-override"}},
		"a bad address":       {flags: Flags{NodeIP: "10.0.0"}, want: []string{"--node-ip"}},
		"a group's address":   {flags: Flags{NodeIP: "224.0.0.1"}, want: []string{"--node-ip"}},
		"one family twice":    {flags: Flags{NodeIP: "10.0.0.1,10.0.0.2"}, want: []string{"--node-ip", "one of each family"}},
		"three addresses":     {flags: Flags{NodeIP: "10.0.0.1,fd00::1,fd00::2"}, want: []string{"--node-ip"}},
		"any address of two":  {flags: Flags{NodeIP: "10.0.0.1,::"}, want: []string{"--node-ip"}},
		"a bad URL":           {flags: Flags{ManifestURL: "ftp://x"}, want: []string{"--manifest-url", "https://"}},
		"a bad header":        {flags: Flags{ManifestHeaders: []string{"nocolon"}}, want: []string{"--manifest-url-header", "name: value"}},
		"a bad endpoint":      {flags: Flags{RuntimeEndpoint: "tcp://1.2.3.4:5"}, want: []string{"--container-runtime-endpoint", "unix:///"}},
		"a lonely image part": {flags: Flags{ImageEndpoint: "unix:///x"}, want: []string{"--image-service-endpoint", "--container-runtime-endpoint"}},
		"an address as CIDR":  {flags: Flags{PodCIDR: "10.0.0.1/24"}, want: []string{"10.0.0.0/24"}},
		"a tiny network":      {flags: Flags{PodCIDR: "10.0.0.0/30"}, want: []string{"too small"}},
		"negative slots":      {flags: Flags{StartSlots: -1}, want: []string{"--start-slots"}},
		"a bad header name":   {flags: Flags{ManifestURL: "http://x/", ManifestHeaders: []string{"a b: c"}}, want: []string{"--manifest-url-header"}},
		"headers for nobody":  {flags: Flags{ManifestHeaders: []string{"a: b"}}, want: []string{"no --manifest-url"}},
		"no time at all":      {file: header + "httpCheckFrequency: 1ms\n", want: []string{"httpCheckFrequency", "1s or more"}},
		"a bad label":         {flags: Flags{NodeLabels: map[string]string{"a b": "c"}}, want: []string{"--node-labels"}},
		"no pods at all":      {file: header + "maxPods: -1\n", want: []string{"maxPods"}},
		"a loopback network":  {flags: Flags{PodCIDR: "127.0.0.0/8"}, want: []string{"--pod-cidr"}},
		"a negative time":     {file: header + "fileCheckFrequency: -1s\n", want: []string{"fileCheckFrequency"}},
		"a lost cgroup":       {file: header + "cgroupRoot: pods\n", want: []string{"cgroupRoot", "absolute"}},
		"no such enforcement": {file: header + "enforceNodeAllocatable: [pods, everything]\n", want: []string{"enforceNodeAllocatable", "everything"}},
		"none and some":       {file: header + "enforceNodeAllocatable: [none, pods]\n", want: []string{"enforceNodeAllocatable", "none"}},
		"pulls at odds":       {file: header + "serializeImagePulls: true\nmaxParallelImagePulls: 3\n", want: []string{"maxParallelImagePulls"}},
		"a long backoff":      {file: header + "crashLoopBackOff: {maxContainerRestartPeriod: 1h}\n", want: []string{"maxContainerRestartPeriod"}},
		"a long CPU period":   {file: header + "cpuCFSQuotaPeriod: 2s\n", want: []string{"cpuCFSQuotaPeriod", "1s"}},
		"odd ids":             {file: header + "userNamespaces: {idsPerPod: 1000}\n", want: []string{"idsPerPod", "65536"}},
		"half a certificate":  {file: header + "tlsCertFile: /a\n", want: []string{"tlsPrivateKeyFile"}},
		"two certificates":    {file: header + "tlsCertFile: /a\ntlsPrivateKeyFile: /b\nserverTLSBootstrap: true\n", want: []string{"serverTLSBootstrap"}},
		"nowhere to write to": {flags: Flags{Bootstrap: "/boot"}, want: []string{"--bootstrap-kubeconfig", "--kubeconfig"}},
		"a bad taint":         {flags: Flags{Taints: []string{"a=b:Sometimes"}}, want: []string{"--register-with-taints", "NoExecute"}},
		"a bad reservation":   {file: header + "kubeReserved: {memory: lots}\n", want: []string{"kubeReserved", "lots"}},
		"a bad DNS server":    {file: header + "clusterDNS: [dns]\n", want: []string{"clusterDNS", "dns"}},
		"periods at odds":     {file: header + "shutdownGracePeriod: 5s\nshutdownGracePeriodCriticalPods: 10s\n", want: []string{"shutdownGracePeriod"}},
		"two at once":         {flags: Flags{NodeIP: "x", PodCIDR: "y"}, want: []string{"--node-ip", "--pod-cidr"}},
	} {
		t.Run(name, func(t *testing.T) {
			var file []byte
			if test.file != "" {
				file = []byte(test.file)
			}
			_, err := Load("/r", test.flags, file, machine)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestTheKubeletsNameOfAFlag(t *testing.T) {
	var f Flags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.AddTo(set)
	if err := set.Parse([]string{"--pod-manifest-path", "pods", "--manifest-url", "http://x/", "--manifest-url-header", "A: b", "--manifest-url-header", "A: c"}); err != nil {
		t.Fatal(err)
	}
	c, err := Load("/r", f, nil, machine)
	if err != nil {
		t.Fatal(err)
	}
	if c.ManifestDir != "/home/me/pods" {
		t.Errorf("manifests %q", c.ManifestDir)
	}
	if got := c.ManifestHeaders.Reveal()["A"]; !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("headers %v", c.ManifestHeaders)
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	_, err := Load("/r", Flags{ManifestURL: "ftp://me:geheim@host/", ManifestHeaders: []string{"geheim", "x y: geheim"}}, nil, machine)
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Fatalf("the error tells a secret, or there is none: %v", err)
	}
}

// The configuration in force is shown on /configz, and the settings are kept in a file.
func TestSecretsStayOutOfWhatIsShown(t *testing.T) {
	c, err := Load("/r", Flags{ManifestURL: "https://geheim:geheim@host/pods?token=geheim", ManifestHeaders: []string{"Authorization: Bearer geheim"}}, nil, machine)
	if err != nil {
		t.Fatal(err)
	}
	for what, shown := range map[string]any{"configz": c.Kubelet(), "settings": c} {
		text, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "geheim") || !strings.Contains(string(text), "@host/pods") {
			t.Errorf("%s: %s", what, text)
		}
	}
	if text := fmt.Sprintf("%+v %#v", c, *c); strings.Contains(text, "geheim") {
		t.Errorf("printed: %s", text)
	}
	if c.ManifestURL.Reveal() != "https://geheim:geheim@host/pods?token=geheim" || c.ManifestHeaders.Reveal()["Authorization"][0] != "Bearer geheim" {
		t.Error("the agent itself does not know them")
	}
}
