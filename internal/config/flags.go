package config

import "github.com/spf13/pflag"

// Names of the flags.
const (
	flagRootDir    = "root-dir"
	flagManifests  = "manifests"
	flagPodPath    = "pod-manifest-path" // the kubelet's name for manifests
	flagURL        = "manifest-url"
	flagHeader     = "manifest-url-header"
	flagConfig     = "config"
	flagRuntime    = "container-runtime-endpoint"
	flagImages     = "image-service-endpoint"
	flagHostname   = "hostname-override"
	flagNodeIP     = "node-ip"
	flagPodCIDR    = "pod-cidr"
	flagStartSlots = "start-slots"
	flagVerbosity  = "v"
)

// Flags are the values of a command line. They are read once it is parsed.
type Flags struct {
	set *pflag.FlagSet

	rootDir, manifests, url, config, runtime, images, hostname, nodeIP, podCIDR string
	headers                                                                     []string
	startSlots, verbosity                                                       int
}

// AddFlags registers the flags of the agent.
func AddFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{set: set}
	set.StringVar(&f.rootDir, flagRootDir, DefaultRootDir, "folder that holds the state of the agent, and its socket")
	set.StringVar(&f.manifests, flagManifests, DefaultManifests, "folder of pod manifests, or a single one; empty for none")
	set.StringVar(&f.url, flagURL, "", "URL that answers with pod manifests")
	set.StringArrayVar(&f.headers, flagHeader, nil, "`name:value` of a header to send to the URL; may be repeated")
	set.StringVar(&f.config, flagConfig, "", "file with a KubeletConfiguration; flags win over it")
	set.StringVar(&f.runtime, flagRuntime, "", "socket of a container runtime, as in unix:///run/containerd/containerd.sock; without it berth starts its own")
	set.StringVar(&f.images, flagImages, "", "socket of the runtime's image service, if it has one of its own")
	set.StringVar(&f.hostname, flagHostname, "", "name of this node, instead of the host's name")
	set.StringVar(&f.nodeIP, flagNodeIP, "", "address of this node; two with a comma between them for IPv4 and IPv6")
	set.StringVar(&f.podCIDR, flagPodCIDR, DefaultPodCIDR, "addresses for pods, if berth starts its own runtime")
	set.IntVar(&f.startSlots, flagStartSlots, 0, "how many pods are started at a time; 0 for one per core")
	set.IntVarP(&f.verbosity, flagVerbosity, "v", 0, "how much is logged: 0 is the least")

	// One value under two names.
	set.Var(set.Lookup(flagManifests).Value, flagPodPath, "the same as --manifests")
	set.Lookup(flagPodPath).Hidden = true
	return f
}

// File is the path of the configuration file, or empty.
func (f *Flags) File() string { return f.config }

func (f *Flags) changed(name string) bool {
	return f.set.Changed(name) || (name == flagManifests && f.set.Changed(flagPodPath))
}
