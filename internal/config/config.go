// Package config makes one checked value out of the flags and the configuration
// file, which is a KubeletConfiguration (kubelet.config.k8s.io/v1beta1).
//
// A flag wins over the file, the file over the default. Everything that is wrong
// is reported at once, with the flag or field that it is about. Fields of the file
// that exist but that berth does not act on yet are returned as warnings, so that
// nobody relies on them by mistake; see honoured.
//
// A Config is never changed once Load has returned it.
package config

import (
	"net/http"
	"net/netip"
	"path/filepath"
	"time"
)

// Where things are if nobody says otherwise.
const (
	DefaultRootDir    = "/var/lib/berth"
	DefaultManifests  = "/etc/berth/manifests"
	DefaultPodCIDR    = "10.88.0.0/16"
	DefaultCgroupRoot = "/berth"
	DefaultPodLogsDir = "/var/log/pods"
)

// Config is how the agent runs.
type Config struct {
	RootDir  string
	NodeName string
	NodeIPs  []netip.Addr // one of each family at most; empty to find out

	// The sources of pods. An empty path or URL means that there is none.
	Manifests      string // a folder, or a single file
	ManifestURL    string
	ManifestHeader http.Header
	FileEvery      time.Duration
	HTTPEvery      time.Duration

	// The runtime, as unix:// URLs. Without one, berth starts its own.
	RuntimeEndpoint string
	ImageEndpoint   string // the same as RuntimeEndpoint unless it was given
	RuntimeTimeout  time.Duration

	PodCIDR    netip.Prefix
	CgroupRoot string
	PodLogsDir string

	StartSlots    int           // pods that start at a time; 0 for one per core
	ParallelPulls int           // images that are pulled at a time; 0 for no limit
	CrashLoopMax  time.Duration // the longest wait before a crashing container is restarted
	Verbosity     int
}

// ManagesRuntime tells whether berth starts a container runtime of its own.
func (c Config) ManagesRuntime() bool { return c.RuntimeEndpoint == "" }

// SourceState is the file in which a source remembers its last good pods.
func (c Config) SourceState(source string) string {
	return filepath.Join(c.RootDir, "sources", source+".json")
}
