package config

import (
	"maps"
	"os"
	"path/filepath"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/config/kubelet"
	"berth/internal/lib/secret"
)

// Places of a kubelet that nothing moves.
const (
	kubeletCgroup   = "kubepods" // below cgroupRoot
	kubeletLogLinks = "/var/log/containers"
	kubeletStateDir = "berth" // below the root directory: no kubelet has a folder of this name
)

// FindStateFile returns where the agent that last ran in a root directory has a state file of this name: as kubelet, or
// under its own name. If both did, the newer file counts.
func FindStateFile(root, name string) string {
	asKubelet, asBerth := filepath.Join(root, kubeletStateDir, name), filepath.Join(root, name)
	ofKubelet, err := os.Lstat(asKubelet)
	if err != nil {
		return asBerth
	}
	if ofBerth, err := os.Lstat(asBerth); err == nil && ofBerth.ModTime().After(ofKubelet.ModTime()) {
		return asBerth
	}
	return asKubelet
}

// KubeletDirs returns the folders that other programs expect of a kubelet, and that of the agent's own state.
func (c *Config) KubeletDirs() []string {
	out := []string{c.StateDir, c.PodLogsDir, c.LogLinksDir}
	for _, name := range []string{"pods", "plugins", "plugins_registry", "pod-resources", "device-plugins", "checkpoints"} {
		out = append(out, filepath.Join(c.RootDir, name))
	}
	return out
}

// AsKubelet reports whether the agent was started as kubelet.
func (c *Config) AsKubelet() bool { return c.complete != nil }

// LoadKubelet returns the settings of an agent that was started as kubelet. Defaults, files and places are the
// kubelet's; the agent's own state files are in a folder of their own below the root directory.
func LoadKubelet(o *kubelet.Options, m Machine) (*Config, error) {
	k := o.Configuration.DeepCopy()
	if o.Bool("seccomp-default") {
		k.SeccompDefault = new(true)
	}
	complete := shownConfiguration(k, o.String("cert-dir"))
	if *k.KubeAPIQPS == 0 { // the kubelet's word for the default
		*k.KubeAPIQPS = defaultQPS
	}
	if maps.Equal(k.EvictionHard, kubelet.EvictionHard()) {
		k.EvictionHard = nil
	}
	l := &loader{machine: m, asKubelet: true}
	c := &Config{
		StateDir: filepath.Join(l.path("--root-dir", o.String("root-dir")), kubeletStateDir),
		Gates:    o.Gates, Given: o.Given(), LogJSON: k.Logging.Format == kubelet.FormatJSON, complete: complete,
		ManifestDirOptional: true, ProtectKernel: k.ProtectKernelDefaults, IPTablesChains: *k.MakeIPTablesUtilChains,
		MaxOpenFiles: uint64(k.MaxOpenFiles), ProfileContention: k.EnableContentionProfiling, // it was checked that it is not negative
	}
	l.warnings = append(l.warnings, o.Warnings...)
	return l.load(c, o.String("root-dir"), Flags{
		Kubeconfig: o.String("kubeconfig"), Bootstrap: o.String("bootstrap-kubeconfig"), CertDir: o.String("cert-dir"),
		Hostname: o.String("hostname-override"), NodeIP: o.String("node-ip"), ExternalCloud: o.String("cloud-provider") == kubelet.ExternalCloud, RuntimeCgroup: o.String("runtime-cgroups"), NodeLabels: o.Labels(),
		ProviderConfig: o.String("image-credential-provider-config"), ProviderBin: o.String("image-credential-provider-bin-dir"),
	}, k)
}

// shownConfiguration returns the configuration as a kubelet shows it in /configz: with the certificate that it makes for
// itself. The password of the manifest URL and the headers for it are not shown.
func shownConfiguration(k *kubeletconfig.KubeletConfiguration, certDir string) *kubeletconfig.KubeletConfiguration {
	out := k.DeepCopy()
	if out.EnableSystemLogQuery == nil {
		out.EnableSystemLogQuery = new(false)
	}
	if !out.ServerTLSBootstrap && out.TLSCertFile == "" && out.TLSPrivateKeyFile == "" {
		out.TLSCertFile, out.TLSPrivateKeyFile = filepath.Join(certDir, "kubelet.crt"), filepath.Join(certDir, "kubelet.key")
	}
	out.StaticPodURL = secret.NewURL(k.StaticPodURL).String()
	for name := range out.StaticPodURLHeader {
		out.StaticPodURLHeader[name] = []string{"<masked>"}
	}
	return out
}

// kubeletLayout puts cgroups and links where a kubelet has them.
func (l *loader) kubeletLayout(c *Config) {
	c.CgroupRoot = filepath.Join("/", c.CgroupRoot, kubeletCgroup)
	c.LogLinksDir = kubeletLogLinks
}
