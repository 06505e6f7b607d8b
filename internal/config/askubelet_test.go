package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"berth/internal/config/kubelet"
)

// asKubelet loads the settings of an agent with the command line of a kubelet.
func asKubelet(t *testing.T, args ...string) (*Config, error) {
	t.Helper()
	line, err := kubelet.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	o, err := kubelet.Load(line, kubelet.Machine{})
	if err != nil {
		return nil, err
	}
	return LoadKubelet(o, machine)
}

// configFile writes a KubeletConfiguration.
func configFile(t *testing.T, fields string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(header+fields), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAKubeletHasTheKubeletsPlaces(t *testing.T) {
	c, err := asKubelet(t, "--config", configFile(t, ""), "--kubeconfig=/k")
	if err != nil {
		t.Fatal(err)
	}
	if c.RootDir != "/var/lib/kubelet" || c.StatePath("x.json") != "/var/lib/kubelet/berth/x.json" || c.Cluster.CertDir != "/var/lib/kubelet/pki" ||
		c.PodLogsDir != "/var/log/pods" || c.LogLinksDir != "/var/log/containers" || c.CgroupRoot != "/kubepods" || c.ManifestDir != "" || !c.ManifestDirOptional ||
		c.RuntimeEndpoint != "unix:///run/containerd/containerd.sock" {
		t.Errorf("got %+v", c)
	}
	if c.API.Port != 10250 || c.API.HealthzPort != 10248 || c.API.ReadOnlyPort != 0 || c.API.Anonymous || !c.API.Tokens || c.API.AlwaysAllow || c.ParallelPulls != 1 {
		t.Errorf("got %+v", c.API)
	}
	if len(c.Warnings)+len(c.NotHonoured) > 0 {
		t.Errorf("warnings of a configuration that sets nothing: %q %q", c.Warnings, c.NotHonoured)
	}
}

func TestTheCgroupOfTheRuntimeIsAFlagOfTheKubelet(t *testing.T) {
	c, err := asKubelet(t, "--config", configFile(t, ""), "--kubeconfig=/k", "--runtime-cgroups=/system.slice/containerd.service")
	if err != nil || c.Cgroups.RuntimeCgroups != "/system.slice/containerd.service" || len(c.Warnings) > 0 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestFlagsMoveThePlacesOfAKubelet(t *testing.T) {
	c, err := asKubelet(t, "--root-dir=/r", "--cert-dir=/c", "--cgroup-root=/mine", "--seccomp-default", "--node-ip=10.0.0.1,fd00::1", "--logging-format=json", "--v=4",
		"--node-labels=a=b", "--hostname-override=node-1", "--runtime-request-timeout=3m", "--pod-manifest-path=/m", "--kube-api-qps=0", "--eviction-hard=memory.available<1Gi")
	if err != nil {
		t.Fatal(err)
	}
	if c.RootDir != "/r" || c.StateDir != "/r/berth" || c.Cluster.CertDir != "/c" || c.CgroupRoot != "/mine/kubepods" || !c.SeccompDefault || fmt.Sprint(c.NodeIPs) != "[10.0.0.1 fd00::1]" ||
		!c.LogJSON || c.Verbosity != 4 || c.Cluster.Labels["a"] != "b" || c.NodeName != "node-1" || c.RuntimeTimeout != 3*time.Minute || c.ManifestDir != "/m" ||
		c.Cluster.QPS != 50 || c.Pressure.Memory.Amount != 1<<30 || c.Pressure.Disk != (Threshold{}) {
		t.Errorf("got %+v", c)
	}
	// Without a file, a kubelet lets everybody in: that is as upstream, and said.
	open := slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "anonymous") })
	if !c.API.Anonymous || !c.API.AlwaysAllow || c.API.ReadOnlyPort != 10255 || !open {
		t.Errorf("got %+v, %q", c.API, c.Warnings)
	}
	if c.Given["root-dir"] != "/r" {
		t.Errorf("given: %v", c.Given)
	}
}

func TestTheCloudOfAKubelet(t *testing.T) {
	for value, external := range map[string]bool{"": false, "external": true} {
		c, err := asKubelet(t, "--cloud-provider="+value, "--node-ip=::")
		if err != nil {
			t.Fatal(err)
		}
		if c.Cluster.ExternalCloud != external || fmt.Sprint(c.NodeIPs) != "[::]" {
			t.Errorf("%q: got %t, %v", value, c.Cluster.ExternalCloud, c.NodeIPs)
		}
	}
}

func TestAKubeletRenewsItsCertificateOnlyIfItIsConfigured(t *testing.T) {
	for _, renews := range []bool{true, false} {
		c, err := asKubelet(t, "--kubeconfig=/k", "--bootstrap-kubeconfig=/b", "--rotate-certificates="+strconv.FormatBool(renews))
		if err != nil {
			t.Fatal(err)
		}
		if c.Cluster.Rotate != renews {
			t.Errorf("rotate-certificates is %t, and the certificate is renewed: %t", renews, c.Cluster.Rotate)
		}
	}
	if c, err := Load("/r", Flags{Kubeconfig: "/k", Bootstrap: "/b"}, nil, machine); err != nil || !c.Cluster.Rotate {
		t.Errorf("berth under its own name does not renew the certificate: %v", err)
	}
}

func TestAKubeletTakesOldCiphers(t *testing.T) {
	c, err := asKubelet(t, "--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "--tls-min-version=VersionTLS11")
	if err != nil || len(c.API.Ciphers) != 2 {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := Load("/r", Flags{}, []byte(header+"tlsMinVersion: VersionTLS11\n"), machine); err == nil {
		t.Error("berth under its own name took a broken version of TLS")
	}
}

func TestAStandaloneKubeletCantAskAnAPIServer(t *testing.T) {
	if _, err := asKubelet(t, "--config", configFile(t, "")); err == nil || !strings.Contains(err.Error(), "webhook") || !strings.Contains(err.Error(), "authorization-mode") {
		t.Errorf("got %v", err)
	}
}

// The verdicts are the kubelet's own, from testdata/upstream.json of package kubelet.
func TestWhatTheKubeletRefusesIsRefused(t *testing.T) {
	var facts struct{ Refused map[string]bool }
	var cases map[string]map[string]any
	for file, into := range map[string]any{"upstream.json": &facts, "cases.yaml": &cases} {
		text, err := os.ReadFile(filepath.Join("kubelet/testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	if len(cases) < 100 || len(cases) != len(facts.Refused) {
		t.Fatalf("%d cases and %d verdicts", len(cases), len(facts.Refused))
	}
	for name, fields := range cases {
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		all, err := yaml.JSONToYAML(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(fields) == 0 {
			all = nil
		}
		if name == "a relative folder of logs" { // it starts at the folder of the file, for the kubelet as well
			continue
		}
		_, err = asKubelet(t, "--kubeconfig=/k", "--config", configFile(t, string(all)))
		if refused := err != nil; refused != facts.Refused[name] {
			t.Errorf("%s: refused %t, and by the kubelet %t: %v", name, refused, facts.Refused[name], err)
		}
	}
}

// Programs read /configz, change a field, and write the result to a file.
func TestTheConfigurationOfAKubeletIsShownAsAWhole(t *testing.T) {
	c, err := asKubelet(t, "--kubeconfig=/k", "--config", configFile(t, "maxPods: 7\nstaticPodURL: https://me:geheim@host/pods\nstaticPodURLHeader: {A: [geheim]}\nvolumePluginDir: /p\n"), "--seccomp-default")
	if err != nil {
		t.Fatal(err)
	}
	shown := c.Kubelet()
	if shown.MaxPods != 7 || shown.VolumePluginDir != "/p" || shown.ContainerLogMaxSize != "10Mi" || !*shown.SeccompDefault || shown.CgroupRoot != "" || shown.Kind == "" ||
		shown.TLSCertFile != "/var/lib/kubelet/pki/kubelet.crt" || shown.TLSPrivateKeyFile != "/var/lib/kubelet/pki/kubelet.key" {
		t.Errorf("got %+v", shown)
	}
	text, err := json.Marshal(shown)
	if err != nil || strings.Contains(string(text), "geheim") {
		t.Errorf("got %s, %v", text, err)
	}
	if c.ManifestURL.Reveal() != "https://me:geheim@host/pods" {
		t.Error("the agent itself does not know the URL")
	}
	shown.StaticPodURL, shown.StaticPodURLHeader = "", nil
	again, err := yaml.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(file, again, 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err = asKubelet(t, "--kubeconfig=/k", "--config", file); err != nil || c.Cluster.MaxPods != 7 {
		t.Errorf("it can't be written back: %v", err)
	}
}

func TestPathsOfAFileStartAtItsFolder(t *testing.T) {
	file := configFile(t, "staticPodPath: pods\npodLogsDir: logs\n")
	t.Chdir(filepath.Dir(file))
	c, err := asKubelet(t, "--kubeconfig=/k", "--config", filepath.Base(file))
	if err != nil || c.ManifestDir != filepath.Join(filepath.Dir(file), "pods") || c.PodLogsDir != filepath.Join(filepath.Dir(file), "logs") {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestTheNewerStateFileCounts(t *testing.T) {
	root := t.TempDir()
	asBerth, asKubelet := filepath.Join(root, "s.json"), filepath.Join(root, "berth", "s.json")
	wantFound := func(want string) {
		t.Helper()
		if got := FindStateFile(root, "s.json"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	write := func(file string, at time.Time) {
		t.Helper()
		for _, err := range []error{os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600), os.Chtimes(file, at, at)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	wantFound(asBerth) // where the first agent under its own name will write it
	write(asKubelet, time.Unix(1000, 0))
	wantFound(asKubelet)
	write(asBerth, time.Unix(2000, 0))
	wantFound(asBerth)
	write(asKubelet, time.Unix(3000, 0))
	wantFound(asKubelet)
}
