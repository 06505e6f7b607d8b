package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/core/plan"
	"berth/internal/lib/secret"
)

// Machine has the facts of the machine that the defaults depend on.
type Machine struct {
	Hostname   string
	Processors int
	WorkDir    string // relative paths on the command line start here
}

// Load puts flags and the content of the configuration file (nil if there is
// none) together. Flags win. All mistakes are reported at once.
func Load(rootDir string, f Flags, file []byte, m Machine) (*Config, error) {
	k := &kubeletconfig.KubeletConfiguration{}
	c := &Config{}
	if file != nil {
		var err error
		if k, c.NotHonoured, err = readFile(file); err != nil {
			return nil, fmt.Errorf("configuration file %s: %w", f.ConfigFile, err)
		}
	}
	return (&loader{machine: m}).load(c, rootDir, f, k)
}

// load completes c, of which the fields are known that depend on how the configuration was read.
func (l *loader) load(c *Config, rootDir string, f Flags, k *kubeletconfig.KubeletConfiguration) (*Config, error) {
	m := l.machine
	c.RootDir = l.path("--root-dir", rootDir)
	l.rootDir = c.RootDir
	c.NodeName = strings.ToLower(strings.TrimSpace(first(f.Hostname, m.Hostname)))
	if problems := validation.IsDNS1123Subdomain(c.NodeName); len(problems) > 0 {
		l.fail("--hostname-override", c.NodeName, "not the name of a node: %s", problems[0])
	}
	if f.NodeIP != "" {
		c.NodeIPs = l.nodeIPs(f.NodeIP)
	}

	c.ManifestDir = l.path("--manifests (staticPodPath)", first(f.Manifests, k.StaticPodPath))
	c.ManifestURL = l.url(first(f.ManifestURL, k.StaticPodURL))
	c.Cluster = l.cluster(f, k)
	if c.ManifestDir == "" && c.ManifestURL == (secret.URL{}) && c.Cluster.Kubeconfig == "" && !l.asKubelet {
		c.ManifestDir = DefaultManifests
	}
	c.ManifestHeaders = l.headers(f.ManifestHeaders, k.StaticPodURLHeader)
	if len(c.ManifestHeaders.Reveal()) > 0 && c.ManifestURL == (secret.URL{}) {
		l.fail("--manifest-url-header (staticPodURLHeader)", "", "there is no --manifest-url to send it to")
	}
	c.ManifestCheck = l.duration("fileCheckFrequency", k.FileCheckFrequency, defaultCheck)
	c.URLCheck = l.duration("httpCheckFrequency", k.HTTPCheckFrequency, defaultCheck)

	c.RuntimeEndpoint = l.endpoint("--container-runtime-endpoint", first(f.RuntimeEndpoint, k.ContainerRuntimeEndpoint))
	c.ImageEndpoint = l.endpoint("--image-service-endpoint", first(f.ImageEndpoint, k.ImageServiceEndpoint))
	if c.ImageEndpoint != "" && c.RuntimeEndpoint == "" {
		l.fail("--image-service-endpoint", c.ImageEndpoint, "give --container-runtime-endpoint, too: the bundled runtime brings its own images")
	}
	c.RuntimeSilence = l.silence(f.RuntimeSilence, c.RuntimeEndpoint)
	c.RuntimeTimeout = l.duration("runtimeRequestTimeout", k.RuntimeRequestTimeout, defaultTimeout)
	c.PodCIDR = l.podCIDR(first(f.PodCIDR, k.PodCIDR))
	c.CgroupRoot = l.cgroup(k.CgroupRoot)
	c.PodLogsDir = l.path("podLogsDir", first(k.PodLogsDir, logsDir(c.RootDir)))
	c.LogLinksDir = filepath.Join(filepath.Dir(c.PodLogsDir), "containers")
	c.StartSlots = l.atLeast("--start-slots", first(f.StartSlots, m.Processors), 1)
	c.ParallelPulls = l.pulls(k)
	c.Images = l.images(f, k)
	c.Backoff = l.backoff(k)
	c.Cgroups = l.cgroups(k)
	c.Cgroups.RuntimeCgroups = f.RuntimeCgroup
	c.Reserved = l.reserved(c.Cgroups)
	c.LendReserved = k.EnforceNodeAllocatable != nil && !slices.Contains(k.EnforceNodeAllocatable, enforcePods)
	c.UnsafeSysctls = k.AllowedUnsafeSysctls
	l.limits(c, k)
	c.ClusterDNS, c.ClusterDomain = l.addresses("clusterDNS", k.ClusterDNS), k.ClusterDomain
	c.Shutdown = l.shutdown(k)
	c.Pressure = l.pressure(f, k)
	c.API = l.api(f, k, c.Cluster.Kubeconfig != "")
	if l.asKubelet {
		l.kubeletLayout(c)
	}
	c.Warnings = l.warnings
	c.Verbosity = first(f.Verbosity, int(k.Logging.Verbosity))

	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	return c, nil
}

// first returns the first value that was given.
func first[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}

// logsDir is where pods log to: the place that log shippers know, unless the
// agent was given a root directory of its own.
func logsDir(root string) string {
	if root == DefaultRootDir {
		return defaultLogsDir
	}
	return filepath.Join(root, "log", "pods")
}

// loader checks one setting after the other and remembers what is wrong.
type loader struct {
	machine Machine
	rootDir string
	// asKubelet says that the agent was started as kubelet: k has the kubelet's defaults, and what a kubelet accepts
	// is accepted.
	asKubelet bool
	errs      []error
	// warnings do not keep the agent from starting.
	warnings []string
}

func (l *loader) fail(setting, value, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s: %q: %s", setting, value, fmt.Sprintf(format, args...)))
}

// nodeIPs reads one address, or one of each family: 10.0.0.1,fd00::1.
func (l *loader) nodeIPs(value string) []netip.Addr {
	var out []netip.Addr
	for text := range strings.SplitSeq(value, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(text))
		switch {
		case err != nil:
			l.fail("--node-ip", value, "%q is not an IP address", text)
			return nil
		case ip.IsMulticast():
			l.fail("--node-ip", value, "%s is not the address of a machine", ip)
		}
		out = append(out, ip.Unmap())
	}
	unspecified := slices.ContainsFunc(out, netip.Addr.IsUnspecified)
	switch {
	case len(out) > 2 || len(out) == 2 && out[0].Is4() == out[1].Is4():
		l.fail("--node-ip", value, "want one address, or one of each family")
	case len(out) == 2 && unspecified:
		l.fail("--node-ip", value, "0.0.0.0 and :: can't be one of two addresses")
	}
	return out
}

func (l *loader) addresses(setting string, values []string) []string {
	for _, value := range values {
		if _, err := netip.ParseAddr(value); err != nil {
			l.fail(setting, value, "not an IP address")
		}
	}
	return values
}

func (l *loader) path(setting, value string) string {
	if value == "" {
		return ""
	}
	if !filepath.IsAbs(value) {
		value = filepath.Join(l.machine.WorkDir, value)
	}
	if strings.ContainsAny(value, "\n\x00") {
		l.fail(setting, value, "not a path")
	}
	return filepath.Clean(value)
}

// url checks a URL. It may hold a password, which stays out of the error.
func (l *loader) url(value string) secret.URL {
	hidden := secret.NewURL(value)
	if value == "" {
		return hidden
	}
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		l.fail("--manifest-url (staticPodURL)", hidden.String(), "not a URL: want http://HOST/PATH or https://HOST/PATH")
	}
	return hidden
}

// headers checks the headers of the flags, or else of the file. Their values may
// be secrets, which stay out of the error.
func (l *loader) headers(flags []string, file map[string][]string) secret.Header {
	out := http.Header{}
	for _, h := range flags {
		name, value, found := strings.Cut(h, ":")
		if !found {
			l.fail("--manifest-url-header", "...", "want 'name: value'")
		}
		l.header(out, "--manifest-url-header", strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if len(flags) == 0 {
		for name, values := range file {
			for _, value := range values {
				l.header(out, "staticPodURLHeader", name, value)
			}
		}
	}
	if len(out) == 0 {
		return secret.Header{}
	}
	return secret.NewHeader(out)
}

func (l *loader) header(to http.Header, setting, name, value string) {
	if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		l.fail(setting, name, "not a header: want 'name: value'")
		return
	}
	to.Add(name, value)
}

// minDuration keeps a typing error from making the agent spin.
const minDuration = time.Second

func (l *loader) duration(setting string, d metav1.Duration, otherwise time.Duration) time.Duration {
	if d.Duration != 0 && d.Duration < minDuration {
		l.fail(setting, d.Duration.String(), "must be %s or more", minDuration)
	}
	return first(d.Duration, otherwise)
}

func (l *loader) endpoint(setting, value string) string {
	if value == "" || strings.HasPrefix(value, "unix:///") {
		return value
	}
	if strings.HasPrefix(value, "/") {
		return "unix://" + value
	}
	l.fail(setting, value, "not a socket: want unix:///path/to/socket")
	return value
}

// minPodBits is how large a pod network must be at least: room for the network's
// own addresses and two pods.
const minPodBits = 3

func (l *loader) podCIDR(value string) netip.Prefix {
	const setting = "--pod-cidr (podCIDR)"
	if value == "" {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(value)
	switch {
	case err != nil:
		l.fail(setting, value, "not a network: want something like 10.88.0.0/16")
	case p.Masked() != p:
		l.fail(setting, value, "an address within a network: did you mean %s?", p.Masked())
	case p.Addr().IsLoopback() || p.Addr().IsMulticast():
		l.fail(setting, value, "not a network that pods can have")
	case p.Addr().BitLen()-p.Bits() < minPodBits:
		l.fail(setting, value, "too small for any pods: want /%d or larger", p.Addr().BitLen()-minPodBits)
	}
	return p
}

// cgroup checks where all pods are to be. The top is the kubelet's word for a cgroup of
// its own right below it: what is there is not for pods.
func (l *loader) cgroup(value string) string {
	if value == "" || value == "/" {
		return ""
	}
	if !strings.HasPrefix(value, "/") || filepath.Clean(value) != value {
		l.fail("cgroupRoot", value, "want an absolute path, such as /berth")
	}
	return value
}

func (l *loader) atLeast(setting string, value, least int) int {
	if value < least {
		l.fail(setting, fmt.Sprint(value), "must be %d or more", least)
	}
	return value
}

func (l *loader) pulls(k *kubeletconfig.KubeletConfiguration) int {
	serial := k.SerializeImagePulls != nil && *k.SerializeImagePulls
	if k.MaxParallelImagePulls == nil {
		if serial {
			return 1
		}
		return defaultPulls
	}
	if serial && *k.MaxParallelImagePulls > 1 {
		l.fail("maxParallelImagePulls", fmt.Sprint(*k.MaxParallelImagePulls), "can't be more than 1 while serializeImagePulls is true")
	}
	return l.atLeast("maxParallelImagePulls", int(*k.MaxParallelImagePulls), 1)
}

func (l *loader) backoff(k *kubeletconfig.KubeletConfiguration) plan.Backoff {
	b := plan.DefaultBackoff
	longest := k.CrashLoopBackOff.MaxContainerRestartPeriod
	if longest == nil {
		return b
	}
	if longest.Duration < time.Second || longest.Duration > b.Max {
		l.fail("crashLoopBackOff.maxContainerRestartPeriod", longest.Duration.String(), "must be between 1s and %s", b.Max)
		return b
	}
	b.Max = longest.Duration
	b.Initial = min(b.Initial, b.Max)
	return b
}

// minSilence is the smallest limit for the silence of the runtime: a busy runtime answers late.
const minSilence = 5 * time.Second

func (l *loader) silence(limit time.Duration, endpoint string) time.Duration {
	const flag = "--runtime-silence-limit"
	if limit != 0 && limit < minSilence {
		l.fail(flag, limit.String(), "must be at least %s: a runtime that is busy answers late", minSilence)
	}
	if limit != 0 && endpoint != "" {
		l.fail(flag, limit.String(), "is for the bundled runtime: one that is given is never killed")
	}
	return limit
}
