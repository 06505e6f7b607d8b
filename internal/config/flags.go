package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Flags are the flags of the command line. A flag that was not given is empty.
type Flags struct {
	Manifests       string
	ManifestURL     string
	ManifestHeaders []string
	ConfigFile      string
	RuntimeEndpoint string
	ImageEndpoint   string
	Hostname        string
	NodeIP          string
	ExternalCloud   bool   // only of a kubelet
	RuntimeCgroup   string // only of a kubelet
	PodCIDR         string
	Kubeconfig      string
	Bootstrap       string
	CertDir         string
	NodeLabels      map[string]string
	Taints          []string
	ProviderID      string
	StartSlots      int
	ProviderConfig  string
	ProviderBin     string
	PullTimeout     time.Duration
	RuntimeSilence  time.Duration
	EvictionHard    map[string]string // nil: not given
	EvictionRelief  time.Duration
	Verbosity       int

	// Of the node's own API.
	Address           string
	Port              int
	ReadOnlyPort      int
	HealthzPort       *int
	ClientCA          string
	AuthorizationMode string
	Anonymous         *bool
	TokenWebhook      *bool
	APILimits         map[string]string
}

// AddTo defines the flags. --root-dir is not among them: every command has it.
func (f *Flags) AddTo(set *pflag.FlagSet) {
	set.StringVar(&f.Manifests, "manifests", "", "folder (or file) that holds pod manifests (default \""+DefaultManifests+"\")")
	set.StringVar(&f.ManifestURL, "manifest-url", "", "URL that answers with pod manifests (one with a password belongs into --config: everybody can read a command line)")
	set.StringArrayVar(&f.ManifestHeaders, "manifest-url-header", nil, "header to send to --manifest-url, as 'name: value' (may be repeated)")
	set.StringVar(&f.ConfigFile, "config", "", "file with a KubeletConfiguration (kubelet.config.k8s.io/v1beta1)")
	set.StringVar(&f.RuntimeEndpoint, "container-runtime-endpoint", "", "socket of the container runtime, as unix:///path (default: the bundled containerd)")
	set.StringVar(&f.ImageEndpoint, "image-service-endpoint", "", "socket of the image service (default: the container runtime's)")
	set.DurationVar(&f.RuntimeSilence, "runtime-silence-limit", 0, "how long the bundled containerd may answer nothing before it is killed and started again; its containers go on (default 3m)")
	set.StringVar(&f.PodCIDR, "pod-cidr", "", "addresses of the pods on the bundled network (default: \"10.88.0.0/16\" for the default root directory, and a free network for each other)")
	set.StringVar(&f.Hostname, "hostname-override", "", "name of this node (default: the machine's host name)")
	set.StringVar(&f.NodeIP, "node-ip", "", "address of this node, or one of each family: 10.0.0.1,fd00::1 (default: the first that others can reach)")
	set.StringVar(&f.Kubeconfig, "kubeconfig", "", "file that says how to reach an API server: join its cluster as a node")
	set.StringVar(&f.Bootstrap, "bootstrap-kubeconfig", "", "file with which to ask for a client certificate if --kubeconfig is not there yet")
	set.StringVar(&f.CertDir, "cert-dir", "", "folder for the certificates of this node (default: pki below the root directory)")
	set.StringSliceVar(&f.Taints, "register-with-taints", nil, "taints of this node when it joins the cluster, as key=value:effect,...")
	set.StringVar(&f.ProviderID, "provider-id", "", "what the cloud calls this machine")
	set.StringToStringVar(&f.NodeLabels, "node-labels", nil, "labels of this node in the cluster, as key=value,...")
	set.IntVar(&f.StartSlots, "start-slots", 0, "how many pods are started at a time (default: one per processor)")
	set.IntVar(&f.Verbosity, "v", 0, "how much to log: 4 and more is for developers")
	f.addImages(set)
	f.addPressure(set)
	f.addAPI(set)
	set.SetNormalizeFunc(normalize)
}

func (f *Flags) addAPI(set *pflag.FlagSet) {
	set.StringVar(&f.Address, "address", "", "address on which the node answers others (default \"0.0.0.0\")")
	set.IntVar(&f.Port, "port", 0, "port on which the node answers others, by HTTPS (default: 10250 in a cluster, and none without one)")
	set.IntVar(&f.ReadOnlyPort, "read-only-port", 0, "port on which everybody may read, by plain HTTP (default: none)")
	set.Func("healthz-port", "port on loopback that reports whether the agent is healthy; 0 for none (default: 10248 in a cluster and for the default root directory, none for others)", func(text string) error {
		n, err := strconv.Atoi(text)
		f.HealthzPort = &n
		return err
	})
	set.StringVar(&f.ClientCA, "client-ca-file", "", "file with the CA that signs the certificates of clients")
	set.StringVar(&f.AuthorizationMode, "authorization-mode", "", "who may do what: Webhook asks the cluster, AlwaysAllow lets everybody who is known (default: Webhook in a cluster)")
	set.StringToStringVar(&f.APILimits, "api-limits", nil, "how much may be asked of the node, as name=value,...: "+strings.Join(apiLimitNames(), ", "))
	boolean(set, &f.Anonymous, "anonymous-auth", "let in who shows neither a certificate nor a token (default: false)")
	boolean(set, &f.TokenWebhook, "authentication-token-webhook", "ask the cluster whose a token is (default: true in a cluster)")
}

// boolean is a flag that can be given as false, too.
func boolean(set *pflag.FlagSet, to **bool, name, usage string) {
	set.BoolFunc(name, usage, func(text string) error {
		b, err := strconv.ParseBool(text)
		*to = &b
		return err
	})
}

// normalize lets people use the kubelet's name of a flag for berth's.
func normalize(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "pod-manifest-path" {
		name = "manifests"
	}
	return pflag.NormalizedName(name)
}
