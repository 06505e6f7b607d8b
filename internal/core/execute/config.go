package execute

import (
	"context"
	"errors"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/cgroupname"
	"berth/internal/lib/pod"
	"berth/internal/pods/handler"
	"berth/internal/runtime/image"
	"berth/internal/runtime/render"
)

// Runtime is the part of a container runtime that the executor calls: package cri implements it.
type Runtime interface {
	Pod(ctx context.Context, uid pod.UID) (pod.Observed, error)
	Ready(ctx context.Context) error
	RunSandbox(ctx context.Context, config *render.SandboxConfig, handler string) (string, error)
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
	CreateContainer(ctx context.Context, sandbox string, config *render.ContainerConfig, in *render.SandboxConfig) (string, error)
	StartContainer(ctx context.Context, id string) error
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	RemoveContainer(ctx context.Context, id string) error
}

// Images pulls the images of containers.
type Images interface {
	// Ensure returns the state of a container's image, and begins to pull it if it is missing.
	Ensure(ctx context.Context, p *v1.Pod, c *v1.Container) image.State
	// Release says that the pod no longer waits for images.
	Release(uid pod.UID)
}

// Hooks runs postStart and preStop hooks.
type Hooks interface {
	Run(ctx context.Context, t handler.Target, h *v1.LifecycleHandler) error
}

// Objects finds the API objects that pods refer to. For an object that does not exist it returns an
// error for which apierrors.IsNotFound holds.
type Objects interface {
	// Register begins to watch the objects that a pod refers to; Unregister ends that.
	Register(p *v1.Pod)
	Unregister(uid pod.UID)
	ConfigMap(ctx context.Context, p *v1.Pod, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, p *v1.Pod, name string) (*v1.Secret, error)
	RuntimeClass(ctx context.Context, p *v1.Pod, name string) (*nodev1.RuntimeClass, error)
	Services(ctx context.Context, p *v1.Pod) ([]*v1.Service, error)
}

// Volumes sets up the volumes of pods.
type Volumes interface {
	// Setup mounts or writes all volumes of a pod, with their newest content, and says
	// when it wants to be called again.
	Setup(ctx context.Context, p *v1.Pod, ips []string) (due time.Time, err error)
	// Edited reports whether Setup is going to replace a volume of the pod by another one.
	Edited(p *v1.Pod) bool
	// File returns the content of a file in a volume.
	File(ctx context.Context, p *v1.Pod, volume, path string) (string, error)
	// Mounts returns the mounts of one container.
	Mounts(ctx context.Context, p *v1.Pod, c *v1.Container, env map[string]string) ([]render.Mount, error)
	// Devices returns the block volumes of one container.
	Devices(ctx context.Context, p *v1.Pod, c *v1.Container) ([]render.Device, error)
	// Groups returns the supplemental groups that the use of the volumes needs.
	Groups(uid pod.UID) []int64
	// Teardown unmounts and removes all volumes of a pod. It may be called at any time after the
	// containers ended.
	Teardown(ctx context.Context, uid pod.UID) error
}

// UserNamespaces allocates ranges of user and group ids to pods with hostUsers: false.
type UserNamespaces interface {
	// Allocate returns the ids of a pod, the same ones in each call. The pod's directory has to exist.
	Allocate(uid pod.UID) (render.IDs, error)
	// Release frees the ids of a pod whose directory was removed.
	Release(uid pod.UID)
}

// Probes runs the probes of containers. No method blocks.
type Probes interface {
	// Watch starts the probes of containers that run, and ends those of the others.
	Watch(p *v1.Pod, have pod.Observed)
	// Health returns what the probes of a container found.
	Health(containerID string) pod.Health
	// Stop ends the probes that could restart a container: the pod is being stopped.
	Stop(uid pod.UID)
	Forget(uid pod.UID)
}

// Events records the events of pods and containers. No method blocks.
type Events interface {
	Record(p *v1.Pod, kind, reason, message string)
	RecordContainer(p *v1.Pod, container, kind, reason, message string)
}

// Upstream is the API server, as the receiver of statuses. A standalone agent has one that does
// nothing. No method blocks.
type Upstream interface {
	// Publish sends a status that changed.
	Publish(p *v1.Pod, s v1.PodStatus)
	// Release lets the deletion of a pod be completed: nothing of it runs, and its volumes and
	// cgroup are gone.
	Release(p *v1.Pod)
}

// RuntimeInfo answers questions about the runtime and its images.
type RuntimeInfo struct {
	// Name returns the prefix of container ids in a status, such as containerd. Nil: not known.
	Name func() string
	// CanMapUsers reports whether a handler of the runtime can give a pod a user namespace of its own.
	CanMapUsers func(handler string) bool
	// CheckLabel returns an error if containers get SELinux labels, and none can have this one. Nil: each label is
	// possible.
	CheckLabel func(*v1.SELinuxOptions) error
	// ImageUser returns the user that an image asks for.
	ImageUser func(ctx context.Context, ref string) (render.User, error)
	// Explain returns the text of an error of the runtime for a status.
	Explain func(error) string
}

// Host gives pods directories, cgroups, user ids and addresses of the machine.
type Host struct {
	PodsDir     string // holds a directory of data for each pod
	LogLinksDir string // holds a link to the log of each container
	// IPs are the addresses of the machine now. Nil: not known.
	IPs func() []string
	// Resolver reads the machine's resolver settings, which a new sandbox takes over. Nil:
	// they are those of Node.
	Resolver func() (render.DNS, error)
	// Allocatable returns the resources that pods may use.
	Allocatable func() v1.ResourceList
	// MakeCgroup makes the cgroup of a pod, or sets the limits of one that exists.
	MakeCgroup func(context.Context, render.Cgroup) error
	// CgroupExists reports whether a cgroup is there, by its name. Nil: it always is.
	CgroupExists func(name string) bool
	// CgroupDriver returns the cgroup driver of the runtime. Nil: cgroupfs.
	CgroupDriver func() cgroupname.Driver
	// LimitsSwap reports whether cgroups of containers can limit swap. It is called after MakeCgroup. Nil: they
	// can't.
	LimitsSwap func() bool
	// RemoveCgroup removes the cgroup of a pod, by its name, which should hold no process any more.
	RemoveCgroup func(ctx context.Context, name string) error
	// RemoveDir removes a directory with all that is in it, and stops with an error at a
	// mount. A directory that is not there is no error.
	RemoveDir func(dir string) error
	// LogTail returns the end of a container's log, for its termination message.
	LogTail func(path string, lines int64, bytes int) string
	// OOMVictim returns a message that names the process that the kernel killed in a container because memory was used up. Nil:
	// it is not known.
	OOMVictim      func(containerID string) string
	UserNamespaces UserNamespaces
}

// Reports receives statuses, events and measurements of pods.
type Reports struct {
	Statuses *status.Store
	Events   Events
	Upstream Upstream
	// Telemetry measures and traces what is done. Nil: nothing is measured.
	Telemetry Telemetry
	// PodGone is called when nothing of a pod is left, or a new life of it begins.
	PodGone func(pod.UID)
}

// Config configures an Executor. Its fields are grouped by the part of the agent or of the machine that they call.
type Config struct {
	Runtime     Runtime
	RuntimeInfo RuntimeInfo
	Images      Images
	Hooks       Hooks
	Probes      Probes
	Objects     Objects
	Volumes     Volumes
	Host        Host
	Reports     Reports

	Node    render.Node  // settings of the node for sandboxes and containers
	Backoff plan.Backoff // between the restarts of a container
	Slots   *Slots
	Log     *slog.Logger
}

// validate returns an error that names what is missing in a Config.
func (c *Config) validate() error {
	if c.Runtime == nil || c.Images == nil || c.Hooks == nil || c.Probes == nil || c.Objects == nil || c.Volumes == nil || c.Slots == nil || c.Log == nil {
		return errors.New("execute: runtime, images, hooks, probes, objects, volumes, slots and log are required")
	}
	if i := &c.RuntimeInfo; i.CanMapUsers == nil || i.ImageUser == nil || i.Explain == nil {
		return errors.New("execute: canMapUsers, imageUser and explain are required of the runtime info")
	}
	if h := &c.Host; h.PodsDir == "" || h.LogLinksDir == "" || c.Node.LogsDir == "" {
		return errors.New("execute: the directories of pods, logs and links are required")
	}
	if h := &c.Host; h.Allocatable == nil || h.MakeCgroup == nil || h.RemoveCgroup == nil || h.RemoveDir == nil || h.LogTail == nil || h.UserNamespaces == nil {
		return errors.New("execute: allocatable, makeCgroup, removeCgroup, removeDir, logTail and user namespaces are required of the host")
	}
	if r := &c.Reports; r.Statuses == nil || r.Events == nil || r.Upstream == nil || r.PodGone == nil {
		return errors.New("execute: statuses, events, upstream and podGone are required of the reports")
	}
	return c.Backoff.Validate()
}

// setDefaults fills in the fields that may be nil.
func (c *Config) setDefaults() {
	if c.Reports.Telemetry == nil {
		c.Reports.Telemetry = noTelemetry{}
	}
	if c.RuntimeInfo.Name == nil {
		c.RuntimeInfo.Name = func() string { return "" }
	}
	if c.Host.OOMVictim == nil {
		c.Host.OOMVictim = func(string) string { return "" }
	}
	if c.Host.CgroupExists == nil {
		c.Host.CgroupExists = func(string) bool { return true }
	}
	if c.Host.CgroupDriver == nil {
		c.Host.CgroupDriver = func() cgroupname.Driver { return cgroupname.Cgroupfs }
	}
	if c.Host.LimitsSwap == nil {
		c.Host.LimitsSwap = func() bool { return false }
	}
	if c.Host.IPs == nil {
		c.Host.IPs = func() []string { return nil }
	}
}
