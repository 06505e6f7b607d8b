// Package config turns flags and a KubeletConfiguration file into one value that
// has been checked, and is never changed afterwards.
//
// The file is the kubelet's, so that existing files go on working. A field that does not exist is
// an error; a field that exists and that berth does not honour yet is named in Config.NotHonoured,
// so that users learn of it.
//
//	kubelet   the command line and the configuration of an agent that was started as kubelet
//	features  feature gates
package config

import (
	"cmp"
	"net/netip"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/cluster/shutdown"
	"berth/internal/config/features"
	"berth/internal/core/plan"
	"berth/internal/host/roots"
	"berth/internal/lib/secret"
)

// Config is how one agent is to work.
type Config struct {
	Version  string `json:"-"` // of this program
	RootDir  string
	StateDir string // holds the agent's own state files; empty: the root directory
	NodeName string
	// NodeIPs are the addresses of this node: one, or one of each family. A single unspecified one (0.0.0.0 or ::) only
	// says which family is preferred. None: to be found out.
	NodeIPs []netip.Addr

	ManifestDir     string        // a folder or a single file; empty: none
	ManifestCheck   time.Duration // between two looks at it
	ManifestURL     secret.URL    // empty: none
	ManifestHeaders secret.Header
	URLCheck        time.Duration
	// ManifestDirOptional says that a ManifestDir that does not exist counts as empty, as for the kubelet.
	ManifestDirOptional bool `json:",omitempty"`

	RuntimeEndpoint string // empty: the bundled one
	ImageEndpoint   string // empty: the same
	RuntimeTimeout  time.Duration
	RuntimeSilence  time.Duration // how long the bundled one may answer nothing; 0: as long as it decides by itself

	// These follow from the root directory unless they are set. Load leaves them empty: they
	// depend on the other roots of the machine.
	PodCIDR    netip.Prefix // of the bundled network
	Bridge     string       // of the bundled network; it can't be set
	CgroupRoot string       // holds the cgroups of all pods, and has their limits
	Names      roots.Names  // of the root, whether they are set or not
	Cgroups    Cgroups

	PodLogsDir    string // holds a directory of logs for each pod
	LogLinksDir   string // holds a link to the log of each container
	StartSlots    int
	ParallelPulls int
	Images        Images
	Backoff       plan.Backoff

	// Reserved are the resources of the machine that pods can't request: they are for the
	// system and for the agent.
	Reserved v1.ResourceList
	// LendReserved says that pods may use the reserved resources while these are idle: the limits
	// of all pods together are those of the machine.
	LendReserved bool
	// UnsafeSysctls are the kernel settings that pods may change although others
	// may feel it, as names or as beginnings that end in *.
	UnsafeSysctls []string
	// How containers are limited and confined unless they say otherwise.
	NoCPUQuota     bool
	CPUPeriod      time.Duration // of a quota; zero: the kernel's
	PodPIDs        int64         // how many processes a pod may have; zero: as many as it likes
	SeccompDefault bool          // containers without a seccomp profile get the runtime's default
	IDsPerPod      uint32        // in user namespaces; zero: 65536
	ResolvConf     string        // the resolver settings that pods take over; empty: none
	ClusterDNS     []string      // the name servers of pods that want the cluster's
	ClusterDomain  string
	// OOMScore is how soon the kernel ends the agent when memory runs out, from -1000
	// (never) to 1000.
	OOMScore int
	// Shutdown says how long pods may take to end when the machine goes down, from
	// the lowest priority to the highest. Empty: a shutdown does not wait for pods.
	Shutdown []shutdown.Period
	Pressure Pressure

	Cluster Cluster
	API     API
	Tracing *Tracing // nil: nothing is traced

	Verbosity int
	LogJSON   bool // lines of the log are JSON objects
	// Gates are the feature gates that were set, of an agent that was started as kubelet.
	Gates features.Gates `json:",omitempty"`
	// MaxOpenFiles is how many files the agent may have open. 0: as many as the system allows.
	MaxOpenFiles uint64 `json:",omitempty"`
	// IPTablesChains says that the chains of iptables are made that other programs expect of a kubelet.
	IPTablesChains bool `json:",omitempty"`
	// ProtectKernel says that the agent does not start if settings of the kernel are not what a kubelet expects. Without
	// it, an agent that was started as kubelet sets them.
	ProtectKernel bool `json:",omitempty"`
	// ProfileContention says that blocked goroutines are profiled.
	ProfileContention bool `json:",omitempty"`
	// complete is the whole configuration of an agent that was started as kubelet, without secrets.
	complete *kubeletconfig.KubeletConfiguration

	// NotHonoured names the fields of the file that are set and have no effect yet.
	NotHonoured []string
	// Given are the flags of the command line, for people to read.
	Given map[string]string
	// Warnings are for people to read: what was accepted and is unwise.
	Warnings []string
}

// StatePath returns where the agent keeps a state file or folder of this name.
func (c *Config) StatePath(name string) string {
	return filepath.Join(cmp.Or(c.StateDir, c.RootDir), name)
}

// Tracing configures the collector that gets the spans of syncs.
type Tracing struct {
	Endpoint   string // host:port of a collector; empty: on this machine
	PerMillion int32  // how many of a million syncs are traced
}

// Cluster is how a node joins one. Without a kubeconfig it does not.
type Cluster struct {
	Kubeconfig string
	// Bootstrap is a kubeconfig with which to ask for a certificate. The answer is
	// kept in CertDir, and Kubeconfig is made from it. Empty: Kubeconfig is there.
	Bootstrap string
	CertDir   string
	// Rotate says that the client certificate is renewed before it runs out.
	Rotate bool
	// ServingBootstrap says that the cluster is asked for the certificate of the
	// node's own API. Without it, TLSCert and TLSKey are used, or else a self-signed
	// certificate.
	ServingBootstrap bool
	TLSCert, TLSKey  string

	Register   bool
	Labels     map[string]string
	Taints     []v1.Taint
	ProviderID string

	// ExternalCloud says that a cloud controller manager completes the Node: its addresses, provider ID and labels.
	ExternalCloud bool

	MaxPods      int
	PodsPerCore  int
	MaxImages    int           // in the status of the node; negative: all
	Lease        time.Duration // how long the node counts as alive after its last sign
	StatusUpdate time.Duration // between two looks at what changed
	StatusReport time.Duration // between two reports if nothing did
	QPS, Burst   int
	// Of events. Negative: without a limit.
	EventQPS, EventBurst int
	ContentType          string // of requests; empty: protobuf
}

// Defaults, where they are berth's own and not the kubelet's.
const (
	DefaultRootDir   = roots.Default
	DefaultManifests = "/etc/berth/manifests"
	defaultLogsDir   = "/var/log/pods"
	defaultPulls     = 4
	defaultTimeout   = 2 * time.Minute
	defaultCheck     = 20 * time.Second

	defaultMaxPods      = 110
	defaultLease        = 40 * time.Second
	defaultStatusUpdate = 10 * time.Second
	defaultStatusReport = 5 * time.Minute
	defaultQPS          = 50
	defaultBurst        = 100
	defaultEventQPS     = 50
	defaultEventBurst   = 100
	defaultMaxImages    = 50
)
