package kubelet

// Defaults of flags that set no field of the configuration.
const (
	DefaultRootDir = "/var/lib/kubelet"
	DefaultCertDir = "/var/lib/kubelet/pki"
)

// ExternalCloud is the value of --cloud-provider for clouds with a controller manager of their own. Kubernetes has no other
// any more.
const ExternalCloud = "external"

const notRetained = "dead containers go by berth's own rules: the last of each container stays"

// nodeFlags are the flags for this machine alone. They are no fields of the configuration, which nodes share.
var nodeFlags = []Flag{
	{Name: "config", Type: "string", Usage: "file with a KubeletConfiguration (kubelet.config.k8s.io/v1beta1)"},
	{Name: "config-dir", Type: "string", Usage: "folder of *.conf files that are merged over --config, in the order of their names"},
	{Name: "kubeconfig", Type: "string", Usage: "file that says how to reach the API server; without it the node is in no cluster"},
	{Name: "bootstrap-kubeconfig", Type: "string", Usage: "file with which to ask for a client certificate if --kubeconfig is not there yet"},
	{Name: "hostname-override", Type: "string", Usage: "name of this node (default: the machine's host name)"},
	{Name: "node-ip", Type: "string", Usage: "address of this node, or one of each family; 0.0.0.0 or :: prefers a family (default: the first that others can reach)"},
	{Name: "cert-dir", Type: "string", Default: DefaultCertDir, Usage: "folder for the certificates of this node"},
	{Name: "root-dir", Type: "string", Default: DefaultRootDir, Usage: "folder that holds pods, plugins and the state of the agent"},
	{Name: "node-labels", Type: "mapStringString", Usage: "labels of this node in the cluster, as key=value,..."},
	{Name: "cloud-provider", Type: "string", Usage: "\"external\" if a cloud controller manager completes the Node"},
	{Name: "seccomp-default", Type: "bool", Default: "false", Usage: "containers without a seccomp profile get the runtime's default"},
	{Name: "image-credential-provider-config", Type: "string", Usage: "file with a CredentialProviderConfig, or folder of such files"},
	{Name: "image-credential-provider-bin-dir", Type: "string", Usage: "folder with the programs of credential providers"},
	{Name: "runtime-cgroups", Type: "string", Usage: "cgroup of the container runtime", State: inEffect},
	{Name: "lock-file", Type: "string", Usage: "file that is locked while the agent runs"},
	{
		Name: "exit-on-lock-contention", Type: "bool", Default: "false", Usage: "end when another process opens --lock-file",
		State: refused("a second agent that relies on it would start while this one still runs pods"),
	},
	{Name: "minimum-container-ttl-duration", Type: "duration", Default: "0s", Usage: "how long a dead container stays", State: noEffect(notRetained)},
	{Name: "maximum-dead-containers", Type: "int32", Default: "-1", Usage: "how many dead containers stay", State: noEffect(notRetained)},
	{Name: "maximum-dead-containers-per-container", Type: "int32", Default: "1", Usage: "how many dead instances of a container stay", State: noEffect(notRetained)},
	{Name: "experimental-mounter-path", Type: "string", Usage: "program that mounts volumes", State: noEffect("volumes are mounted by system calls, and by mount and its helpers")},
	{
		Name: "experimental-allocatable-ignore-eviction", Type: "bool", Default: "false", Usage: "do not subtract eviction thresholds from what pods may request",
		State: noEffect("the thresholds are always subtracted"),
	},
	{Name: "version", Type: "version", Default: "false", Usage: "print the version of Kubernetes that this node is compatible with, and end; =raw prints more"},
	{Name: "pod-infra-container-image", Type: "string", Usage: "image of sandboxes", Removed: true, State: noEffect("the image of sandboxes is set in the container runtime")},
}
