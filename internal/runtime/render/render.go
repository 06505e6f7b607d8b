// Package render turns a pod into messages of the Container Runtime
// Interface: the configurations of its sandbox and its containers.
//
// It is pure: objects, mounts and ids that have to be looked up are arguments, and the same input
// gives the same message.
package render

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/cgroupname"
	"berth/internal/lib/pod"
)

// SandboxConfig is the CRI message that a sandbox is created from.
type SandboxConfig = runtimeapi.PodSandboxConfig

// ContainerConfig is the CRI message that a container is created from.
type ContainerConfig = runtimeapi.ContainerConfig

// Node has the settings of the node that sandboxes and containers are rendered with.
type Node struct {
	Name    string
	Root    string // id of the agent's root directory: a label of all sandboxes and containers
	LogsDir string // holds a directory of logs for each pod

	DNS           DNS      // the machine's own resolver settings
	InCluster     bool     // pods expect cluster DNS
	ClusterDNS    []string // addresses of the cluster's DNS servers
	ClusterDomain string

	SeccompDir     string // holds the Localhost profiles of pods
	SeccompDefault bool   // containers without a profile get RuntimeDefault

	MaskedPaths []string // of this machine, besides the usual ones

	CgroupRoot        string            // name of the cgroup above those of all pods
	CgroupDriver      cgroupname.Driver // of the runtime; empty: cgroupfs; set by the executor
	CgroupV2          bool
	SwapLimits        bool          // of cgroup v2: the kernel can keep containers from swapping; set by the executor
	LimitedSwap       bool          // containers of Burstable pods may use a part of the swap
	Swap              int64         // bytes of swap that the machine has
	MemoryQoS         *MemoryQoS    // nil: memory is limited, and neither protected nor slowed down
	AllocatableMemory int64         // bytes that all pods may have
	PageSizes         []string      // of huge pages that the machine has, such as 2MB
	Memory            int64         // bytes that the machine has; 0: not known
	PodPids           int64         // how many processes a pod may have; 0 or less: any number
	NoCPUQuota        bool          // CPU limits are not enforced
	CPUPeriod         time.Duration // in which CPU limits are counted; 0: 100 ms
}

// DNS is a resolver configuration.
type DNS struct {
	Servers, Searches, Options []string
}

// LogDir returns the directory of a pod's logs.
func (n Node) LogDir(namespace, name string, uid pod.UID) string {
	return filepath.Join(n.LogsDir, namespace+"_"+name+"_"+string(uid))
}

// Sandbox renders the sandbox of a pod. The ids are for a pod with hostUsers: false.
func Sandbox(p *v1.Pod, a plan.CreateSandbox, ids IDs, n Node) (*SandboxConfig, error) {
	host, err := hostname(p, n)
	if err != nil {
		return nil, err
	}
	namespaces, err := namespaces(p, ids)
	if err != nil {
		return nil, err
	}
	dns, _ := Resolver(p, n)
	security := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces,
		SelinuxOptions:   sandboxSELinux(p),
		Privileged:       anyPrivileged(p),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	sandboxUser(security, p.Spec.SecurityContext)
	return &SandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: p.Name, Namespace: p.Namespace, Uid: string(p.UID), Attempt: a.Attempt,
		},
		Hostname:     host,
		LogDirectory: n.LogDir(p.Namespace, p.Name, p.UID),
		DnsConfig:    dns,
		PortMappings: portMappings(p),
		Labels:       sandboxLabels(p, n),
		Annotations:  sandboxAnnotations(p, a),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    n.CgroupDriver.Path(n.Cgroup(p)),
			Sysctls:         sysctls(p),
			Overhead:        overhead(p, n),
			Resources:       sandboxResources(p, n),
			SecurityContext: security,
		},
	}, nil
}

// Resolved are the inputs of a container that had to be looked up.
type Resolved struct {
	ImageRef           string
	Environment        []Variable
	Mounts             []Mount
	Devices            []Device
	TerminationMessage TerminationMessage
	// Hosts is the path of the pod's hosts file, mounted as /etc/hosts, or "".
	Hosts string
	// User is the user of the image. Nil: it is not needed, see NeedsUser.
	User *User
	IDs  IDs
	// TargetID is the ID of the container whose process namespace an ephemeral container joins.
	TargetID string
}

// TerminationMessage is the file in which a container may leave a message about its end.
// It is empty if the container does not want one.
type TerminationMessage struct {
	HostPath, ContainerPath string
}

// Container renders one container of p.
func Container(p *v1.Pod, c *v1.Container, a plan.StartContainer, r Resolved, n Node) (*ContainerConfig, error) {
	env := r.Environment
	security, err := security(p, c, r, n)
	if err != nil {
		return nil, err
	}
	return &ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(a.Attempt)},
		Image:      &runtimeapi.ImageSpec{Image: r.ImageRef, UserSpecifiedImage: c.Image},
		Command:    expandAll(c.Command, env),
		Args:       expandAll(c.Args, env),
		WorkingDir: c.WorkingDir,
		Envs:       keyValues(env),
		Labels: map[string]string{
			pod.LabelPodName:       p.Name,
			pod.LabelPodNamespace:  p.Namespace,
			pod.LabelPodUID:        string(p.UID),
			pod.LabelContainerName: c.Name,
			pod.LabelRoot:          n.Root,
		},
		Annotations: map[string]string{
			pod.AnnotationSpecHash:     a.Hash,
			pod.AnnotationRestartCount: strconv.Itoa(int(a.RestartCount)),
			pod.AnnotationBackoff:      a.Backoff.String(),
			pod.AnnotationRound:        strconv.Itoa(a.Round),
			pod.AnnotationGrace:        strconv.FormatInt(pod.Grace(p), 10),
		},
		Mounts:     mounts(r, security.NamespaceOptions.GetUsernsOptions()),
		Devices:    devices(r.Devices),
		StopSignal: stopSignal(c),
		LogPath:    LogFile(c.Name, a.Attempt),
		Stdin:      c.Stdin,
		StdinOnce:  c.StdinOnce,
		Tty:        c.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       resources(p, c, n),
			SecurityContext: security,
		},
	}, nil
}

// hostsPath is where the hosts file is mounted.
const hostsPath = "/etc/hosts"

// mounts renders the mounts of a container. In a user namespace (users), the owners of files are
// mapped to the ids of the namespace.
func mounts(r Resolved, users *runtimeapi.UserNamespace) []*runtimeapi.Mount {
	var out []*runtimeapi.Mount
	hosts := r.Hosts != ""
	for _, m := range r.Mounts {
		hosts = hosts && filepath.Clean(m.ContainerPath) != hostsPath // a volume is mounted there
		mount := &runtimeapi.Mount{
			HostPath: m.HostPath, ContainerPath: m.ContainerPath, Readonly: m.ReadOnly, RecursiveReadOnly: m.RecursiveReadOnly,
			SelinuxRelabel: m.SELinuxRelabel, Propagation: propagation(m.Propagation),
		}
		if m.Image != "" {
			mount.Image, mount.ImageSubPath = &runtimeapi.ImageSpec{Image: m.Image}, m.SubPath
		}
		out = append(out, mount)
	}
	if hosts {
		out = append(out, &runtimeapi.Mount{HostPath: r.Hosts, ContainerPath: hostsPath, SelinuxRelabel: true})
	}
	if r.TerminationMessage.HostPath != "" {
		out = append(out, &runtimeapi.Mount{HostPath: r.TerminationMessage.HostPath, ContainerPath: r.TerminationMessage.ContainerPath, SelinuxRelabel: true})
	}
	for _, m := range out {
		m.UidMappings, m.GidMappings = users.GetUids(), users.GetGids()
	}
	return out
}

func propagation(mode v1.MountPropagationMode) runtimeapi.MountPropagation {
	switch mode {
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	default:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
}

// stopSignal returns the stop signal in the spec of a container. Without one, the runtime uses the
// stop signal of the image.
func stopSignal(c *v1.Container) runtimeapi.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_RUNTIME_DEFAULT
	}
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*c.Lifecycle.StopSignal))
	return runtimeapi.Signal(runtimeapi.Signal_value[name])
}

// LogFile returns the path of a container's log below the log directory of its pod.
func LogFile(container string, attempt int32) string {
	return filepath.Join(container, strconv.Itoa(int(attempt))+".log")
}

func sandboxLabels(p *v1.Pod, n Node) map[string]string {
	labels := map[string]string{}
	for k, v := range p.Labels {
		labels[k] = v
	}
	labels[pod.LabelPodName] = p.Name
	labels[pod.LabelPodNamespace] = p.Namespace
	labels[pod.LabelPodUID] = string(p.UID)
	labels[pod.LabelRoot] = n.Root
	return labels
}

func sandboxAnnotations(p *v1.Pod, a plan.CreateSandbox) map[string]string {
	annotations := map[string]string{}
	for k, v := range p.Annotations {
		annotations[k] = v
	}
	annotations[pod.AnnotationSpecHash] = a.Hash
	if !a.FirstSeen.IsZero() {
		annotations[pod.AnnotationSeen] = a.FirstSeen.Format(time.RFC3339Nano)
	}
	return annotations
}

// sysctls returns the sysctls of a pod by their kernel names.
func sysctls(p *v1.Pod) map[string]string {
	if p.Spec.SecurityContext == nil || len(p.Spec.SecurityContext.Sysctls) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, s := range p.Spec.SecurityContext.Sysctls {
		out[sysctl.NormalizeName(s.Name)] = s.Value
	}
	return out
}

func portMappings(p *v1.Pod) []*runtimeapi.PortMapping {
	if p.Spec.HostNetwork {
		return nil
	}
	var out []*runtimeapi.PortMapping
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.HostPort == 0 {
				continue
			}
			out = append(out, &runtimeapi.PortMapping{
				Protocol:      protocol(port.Protocol),
				ContainerPort: port.ContainerPort,
				HostPort:      port.HostPort,
				HostIp:        port.HostIP,
			})
		}
	}
	return out
}

func protocol(p v1.Protocol) runtimeapi.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case v1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	default:
		return runtimeapi.Protocol_TCP
	}
}
