package kubelet

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// folder writes files, to which the header is added, and returns their folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(header+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, args ...string) *Options {
	t.Helper()
	o, err := Load(parse(t, args...), Machine{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFlagsWinOverDropInsOverTheFile(t *testing.T) {
	dir := folder(t, map[string]string{
		"config.yaml": "maxPods: 1\npodsPerCore: 1\nport: 1\nclusterDNS: [10.0.0.1, 10.0.0.2]\nsystemReserved: {cpu: '1', memory: 1Gi}\n" +
			"featureGates: {MemoryQoS: true, NodeLogQuery: true}\nstaticPodPath: pods\nauthentication: {x509: {clientCAFile: ca.crt}}\n",
		"d/10-b.conf":      "podsPerCore: 2\nport: 2\nclusterDNS: [10.0.0.3]\nsystemReserved: {cpu: '2'}\nauthentication: {anonymous: {enabled: true}}\n",
		"d/20/a.conf":      "port: 3\n",
		"d/05-a.conf":      "podsPerCore: 9\n",
		"d/99.conf":        "systemReserved: {memory: null}\nreadOnlyPort: 4\n",
		"d/99.conf.backup": "port: 5\n",
		"d/other.yaml":     "port: 6\n",
	})
	o := load(t, "--config", filepath.Join(dir, "config.yaml"), "--config-dir", filepath.Join(dir, "d"),
		"--read-only-port=7", "--feature-gates=PodLevelResources=false", "--cluster-domain=cluster.local")
	k := o.Configuration
	if k.MaxPods != 1 || k.PodsPerCore != 2 || k.Port != 3 || k.ReadOnlyPort != 7 || k.ClusterDomain != "cluster.local" {
		t.Errorf("got maxPods %d, podsPerCore %d, port %d, readOnlyPort %d", k.MaxPods, k.PodsPerCore, k.Port, k.ReadOnlyPort)
	}
	if !slices.Equal(k.ClusterDNS, []string{"10.0.0.3"}) || !maps.Equal(k.SystemReserved, map[string]string{"cpu": "2"}) {
		t.Errorf("lists are replaced, and maps merged: %v, %v", k.ClusterDNS, k.SystemReserved)
	}
	if !o.Gates.Enabled("MemoryQoS") || o.Gates.Enabled("PodLevelResources") {
		t.Errorf("gates: %v", o.Gates)
	}
	if k.StaticPodPath != filepath.Join(dir, "pods") || k.Authentication.X509.ClientCAFile != filepath.Join(dir, "ca.crt") || !*k.Authentication.Anonymous.Enabled || !*k.Authentication.Webhook.Enabled {
		t.Errorf("got %s, %+v", k.StaticPodPath, k.Authentication)
	}
}

// A drop-in is merged over the thresholds of the kubelet, while the file replaces them.
func TestThresholds(t *testing.T) {
	dir := folder(t, map[string]string{"none.yaml": "", "some.yaml": "evictionHard: {memory.available: 1Gi}\n", "d/a.conf": "evictionHard: {memory.available: 2Gi}\n"})
	for name, test := range map[string]struct {
		args   []string
		number int
		memory string
	}{
		"no file":             {nil, 5, "100Mi"},
		"none":                {[]string{"--config", dir + "/none.yaml"}, 5, "100Mi"},
		"of the file":         {[]string{"--config", dir + "/some.yaml"}, 1, "1Gi"},
		"of the drop-in":      {[]string{"--config", dir + "/none.yaml", "--config-dir", dir + "/d"}, 5, "2Gi"},
		"of file and drop-in": {[]string{"--config", dir + "/some.yaml", "--config-dir", dir + "/d"}, 1, "2Gi"},
		"of the flag":         {[]string{"--config", dir + "/none.yaml", "--eviction-hard=memory.available<3Gi"}, 1, "3Gi"},
	} {
		if got := load(t, test.args...).Configuration.EvictionHard; len(got) != test.number || got["memory.available"] != test.memory {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWithoutAFileTheDefaultsAreTheOldOnes(t *testing.T) {
	k := load(t).Configuration
	if !*k.Authentication.Anonymous.Enabled || *k.Authentication.Webhook.Enabled || k.Authorization.Mode != kubeletconfig.KubeletAuthorizationModeAlwaysAllow || k.ReadOnlyPort != 10255 {
		t.Errorf("got %+v, %+v", k.Authentication, k.Authorization)
	}
	dir := folder(t, map[string]string{"a.yaml": ""})
	k = load(t, "--config", dir+"/a.yaml").Configuration
	if *k.Authentication.Anonymous.Enabled || !*k.Authentication.Webhook.Enabled || k.Authorization.Mode != kubeletconfig.KubeletAuthorizationModeWebhook || k.ReadOnlyPort != 0 {
		t.Errorf("got %+v, %+v", k.Authentication, k.Authorization)
	}
}

func TestFilesAreReadLeniently(t *testing.T) {
	dir := folder(t, map[string]string{"config.yaml": "maxPodz: 3\nmaxPods: 4\nmaxPods: 5\n", "d/a.conf": "portt: 3\n"})
	o := load(t, "--config", dir+"/config.yaml", "--config-dir", dir+"/d")
	want := []string{
		dir + "/config.yaml:3: maxPodz: unknown field; did you mean maxPods?",
		dir + "/config.yaml:5: maxPods: duplicate field: it is already set above",
		dir + "/d/a.conf:3: portt: unknown field; did you mean port?",
	}
	if o.Configuration.MaxPods != 5 || !slices.Equal(o.Warnings, want) {
		t.Errorf("got %d, %q", o.Configuration.MaxPods, o.Warnings)
	}
}

func TestBrokenFilesAreNamedWithTheirLine(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no YAML":              {map[string]string{"d/a.conf": "a: [\n"}, "/d/a.conf:"},
		"another type":         {map[string]string{"d/a.conf": "\nport: many\n"}, "/d/a.conf:4: port: must be a whole number"},
		"a doubled field":      {map[string]string{"d/a.conf": "port: 1\nport: 2\n"}, "/d/a.conf:4: port: duplicate field"},
		"another kind":         {map[string]string{"d/a.conf": "---\nkind: Pod\n"}, "/d/a.conf: it holds 2 documents"},
		"a bad file":           {map[string]string{"config.yaml": "port: many\n"}, "/config.yaml:3: port: must be a whole number"},
		"a bad time":           {map[string]string{"config.yaml": "syncFrequency: soon\n"}, "/config.yaml:3: syncFrequency"},
		"an unknown gate":      {map[string]string{"d/a.conf": "featureGates: {MemoryQos: true}\n"}, "unrecognized feature gate: MemoryQos; did you mean MemoryQoS?"},
		"a gate that is fixed": {map[string]string{"config.yaml": "featureGates: {ExecProbeTimeout: false}\n"}, "feature is locked to true"},
	} {
		files := map[string]string{"config.yaml": "", "d/z.conf": ""}
		maps.Copy(files, test.files)
		dir := folder(t, files)
		_, err := Load(parse(t, "--config", dir+"/config.yaml", "--config-dir", dir+"/d"), Machine{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	if _, err := Load(parse(t, "--config=/nonexistent/file"), Machine{}); err == nil || !strings.Contains(err.Error(), "/nonexistent/file") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Load(parse(t, "--config-dir=/nonexistent/dir"), Machine{}); err == nil || !strings.Contains(err.Error(), "/nonexistent/dir") {
		t.Errorf("a missing folder: %v", err)
	}
}

func TestWhatHasNoEffectIsSaidOnce(t *testing.T) {
	dir := folder(t, map[string]string{"config.yaml": "volumePluginDir: /p\nsyncFrequency: 1m\nmaxPods: 3\nvolumeStatsAggPeriod: 0s\n"})
	o := load(t, "--config", dir+"/config.yaml", "--hairpin-mode=none", "--storage-driver-db=x", "--housekeeping-interval=10s", "--feature-gates=PodLevelResources=false,MemoryQoS=true")
	want := []string{
		"--storage-driver-db has no effect: measurements are not written to a database",
		"feature gates without effect: PodLevelResources",
		"hairpinMode (--hairpin-mode) has no effect: the network of pods is the CNI plugin's",
		"volumePluginDir (--volume-plugin-dir) has no effect: flexVolume plugins are not supported",
	}
	if !slices.Equal(o.Warnings, want) {
		t.Errorf("got %q", o.Warnings)
	}
}

func TestWhatIsDangerousToIgnoreIsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--exit-on-lock-contention":         "--exit-on-lock-contention: a second agent",
		"--runonce":                         "runOnce (--runonce)",
		"--cloud-provider=aws":              "--cloud-provider",
		"--node-labels=x.kubernetes.io/a=b": "--node-labels",
		"--node-labels=a b=c":               "--node-labels",
	} {
		if _, err := Load(parse(t, args), Machine{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
	load(t, "--node-labels=node.kubernetes.io/a=b,kubernetes.io/os=linux,mine=x", "--cloud-provider=external")
}

func TestMachinesThatAKubeletRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		machine Machine
		flag    string
		want    string
	}{
		"swap":      {Machine{Swap: true}, "--fail-swap-on=false", "failSwapOn (--fail-swap-on)"},
		"cgroup v1": {Machine{CgroupV1: true}, "--fail-cgroupv1=false", "failCgroupV1 (--fail-cgroupv1)"},
	} {
		if _, err := Load(parse(t), test.machine); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := Load(parse(t, test.flag), test.machine); err != nil {
			t.Errorf("%s, with %s: %v", name, test.flag, err)
		}
	}
}

func TestTimesDependOnEachOther(t *testing.T) {
	dir := folder(t, map[string]string{"a.yaml": "nodeStatusUpdateFrequency: 7s\nmaxParallelImagePulls: 3\n"})
	k := load(t, "--config", dir+"/a.yaml").Configuration
	if k.NodeStatusReportFrequency.Duration != 7*time.Second || *k.SerializeImagePulls {
		t.Errorf("got %s, %t", k.NodeStatusReportFrequency.Duration, *k.SerializeImagePulls)
	}
}

// A tool may write out every flag. Those with their default value are as good as not given.
func TestEveryFlagTakesItsDefault(t *testing.T) {
	facts := readFacts(t)
	args := []string{"--cloud-provider="}
	for name, f := range facts.Flags {
		if f.Default != "" && f.Type != "stringSlice" && f.Type != "version" {
			args = append(args, "--"+name+"="+f.Default)
		}
	}
	if len(args) < 80 {
		t.Fatalf("only %d flags have a default", len(args))
	}
	if o := load(t, args...); len(o.Warnings) > 0 {
		t.Errorf("got %q", o.Warnings)
	}
}

// kubeadm writes all fields that it knows, most of them with the zero value.
func TestZeroValuesAreDefaults(t *testing.T) {
	dir := folder(t, map[string]string{"config.yaml": `
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: /ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`})
	if o := load(t, "--config", dir+"/config.yaml"); len(o.Warnings) > 0 || o.Configuration.RuntimeRequestTimeout.Duration != 2*time.Minute {
		t.Errorf("got %q, %s", o.Warnings, o.Configuration.RuntimeRequestTimeout.Duration)
	}
}
