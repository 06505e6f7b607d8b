package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/plan"
)

// Machine is what the defaults depend on.
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
	l := &loader{machine: m}

	c.RootDir = l.path("--root-dir", rootDir)
	c.NodeName = strings.ToLower(strings.TrimSpace(first(f.Hostname, m.Hostname)))
	if problems := validation.IsDNS1123Subdomain(c.NodeName); len(problems) > 0 {
		l.fail("--hostname-override", c.NodeName, "not the name of a node: %s", problems[0])
	}
	if f.NodeIP != "" {
		c.NodeIP = parse(l, "--node-ip", f.NodeIP, netip.ParseAddr)
	}

	c.ManifestDir = l.path("--manifests (staticPodPath)", first(f.Manifests, k.StaticPodPath))
	c.ManifestURL = l.url(first(f.ManifestURL, k.StaticPodURL))
	if c.ManifestDir == "" && c.ManifestURL == "" {
		c.ManifestDir = DefaultManifests
	}
	c.ManifestHeaders = l.headers(f.ManifestHeaders, k.StaticPodURLHeader)
	c.ManifestCheck = l.duration("fileCheckFrequency", k.FileCheckFrequency, defaultCheck)
	c.URLCheck = l.duration("httpCheckFrequency", k.HTTPCheckFrequency, defaultCheck)

	c.RuntimeEndpoint = l.endpoint("--container-runtime-endpoint", first(f.RuntimeEndpoint, k.ContainerRuntimeEndpoint))
	c.ImageEndpoint = l.endpoint("--image-service-endpoint", first(f.ImageEndpoint, k.ImageServiceEndpoint))
	if c.ImageEndpoint != "" && c.RuntimeEndpoint == "" {
		l.fail("--image-service-endpoint", c.ImageEndpoint, "give --container-runtime-endpoint, too: the bundled runtime brings its own images")
	}
	c.RuntimeTimeout = l.duration("runtimeRequestTimeout", k.RuntimeRequestTimeout, defaultTimeout)
	c.PodCIDR = l.podCIDR(first(f.PodCIDR, k.PodCIDR, defaultPodCIDR))

	c.CgroupRoot = l.cgroup(first(k.CgroupRoot, defaultCgroup))
	c.PodLogsDir = l.path("podLogsDir", first(k.PodLogsDir, logsDir(c.RootDir)))
	c.StartSlots = l.atLeast("--start-slots", first(f.StartSlots, m.Processors), 1)
	c.ParallelPulls = l.pulls(k)
	c.Backoff = l.backoff(k)
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
	errs    []error
}

func (l *loader) fail(setting, value, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s: %q: %s", setting, value, fmt.Sprintf(format, args...)))
}

func parse[T any](l *loader, setting, value string, f func(string) (T, error)) T {
	v, err := f(value)
	if err != nil {
		l.fail(setting, value, "%v", err)
	}
	return v
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

func (l *loader) url(value string) string {
	if value == "" {
		return ""
	}
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		l.fail("--manifest-url (staticPodURL)", value, "not a URL: want http://HOST/PATH or https://HOST/PATH")
	}
	return value
}

func (l *loader) headers(flags []string, file map[string][]string) map[string][]string {
	if len(flags) == 0 {
		return file
	}
	out := http.Header{}
	for _, h := range flags {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(h, "\r\n") {
			l.fail("--manifest-url-header", h, "want 'name: value'")
			continue
		}
		out.Add(name, strings.TrimSpace(value))
	}
	return out
}

func (l *loader) duration(setting string, d metav1.Duration, otherwise time.Duration) time.Duration {
	if d.Duration < 0 {
		l.fail(setting, d.Duration.String(), "must not be negative")
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
	p := parse(l, "--pod-cidr (podCIDR)", value, netip.ParsePrefix)
	if !p.IsValid() {
		return p
	}
	if p.Masked() != p {
		l.fail("--pod-cidr (podCIDR)", value, "an address within a network: did you mean %s?", p.Masked())
	}
	if p.Addr().BitLen()-p.Bits() < minPodBits {
		l.fail("--pod-cidr (podCIDR)", value, "too small for any pods: want /%d or larger", p.Addr().BitLen()-minPodBits)
	}
	return p
}

func (l *loader) cgroup(value string) string {
	if !strings.HasPrefix(value, "/") || filepath.Clean(value) != value || value == "/" {
		l.fail("cgroupRoot", value, "want an absolute path below the top, such as %s", defaultCgroup)
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
