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
	"berth/internal/lib/pod"
	"berth/internal/pods/handler"
	"berth/internal/runtime/image"
	"berth/internal/runtime/render"
)

// Runtime is what the executor needs of a runtime.
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

// Images says how things stand with an image.
type Images interface {
	Ensure(ctx context.Context, p *v1.Pod, c *v1.Container) image.State
	Release(uid pod.UID)
}

// Hooks run what a container asks for after its start and before its stop.
type Hooks interface {
	Run(ctx context.Context, t handler.Target, h *v1.LifecycleHandler) error
}

// Objects are what pods refer to. One that does not exist is an error for which
// apierrors.IsNotFound holds.
type Objects interface {
	// Register is told of a pod that runs, so that what it refers to is at hand.
	Register(p *v1.Pod)
	Unregister(uid pod.UID)
	ConfigMap(ctx context.Context, p *v1.Pod, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, p *v1.Pod, name string) (*v1.Secret, error)
	RuntimeClass(ctx context.Context, p *v1.Pod, name string) (*nodev1.RuntimeClass, error)
	Services(ctx context.Context, p *v1.Pod) ([]*v1.Service, error)
}

// Volumes make what pods mount.
type Volumes interface {
	// Setup makes all volumes of a pod be there with their newest content, and says
	// when it wants to be called again.
	Setup(ctx context.Context, p *v1.Pod, ips []string) (due time.Time, err error)
	// Edited tells whether Setup will put another volume in the place of one.
	Edited(p *v1.Pod) bool
	// File returns what a file in one of them holds.
	File(ctx context.Context, p *v1.Pod, volume, path string) (string, error)
	// Mounts is what one container is shown of them.
	Mounts(ctx context.Context, p *v1.Pod, c *v1.Container, env map[string]string) ([]render.Mount, error)
	// Devices is what one container is given of those that are devices.
	Devices(ctx context.Context, p *v1.Pod, c *v1.Container) ([]render.Device, error)
	// Groups are those that containers have to be in to use them, besides their own.
	Groups(uid pod.UID) []int64
	// Teardown undoes all of it. It may be called at any time after the containers ended.
	Teardown(ctx context.Context, uid pod.UID) error
}

// UserNamespaces gives ids of the machine to pods that want users of their own.
type UserNamespaces interface {
	// Allocate returns the ids of a pod, whose directory is there. They stay the same.
	Allocate(uid pod.UID) (render.IDs, error)
	// Release is told that the pod's directory is gone.
	Release(uid pod.UID)
}

// Probes ask containers how they are. None of it ever blocks.
type Probes interface {
	// Watch begins to probe the containers that run, and ends it for those that do not.
	Watch(p *v1.Pod, have pod.Observed)
	// Health is what is known of a container that is watched.
	Health(containerID string) pod.Health
	// Stop is told that a pod is being stopped: it is not to be restarted any more.
	Stop(uid pod.UID)
	Forget(uid pod.UID)
}

// Events take note of what happens to pods. They never block.
type Events interface {
	Record(p *v1.Pod, kind, reason, message string)
	RecordContainer(p *v1.Pod, container, kind, reason, message string)
}

// Upstream is whoever else wants to know of the pods of this node: an API server,
// or nobody. None of it ever blocks.
type Upstream interface {
	// Publish is told every status that is new.
	Publish(p *v1.Pod, s v1.PodStatus)
	// Release is told that nothing of a pod that was deleted runs any more, and
	// nothing that it held is held.
	Release(p *v1.Pod)
}

// RuntimeInfo is what is known of the runtime besides its calls.
type RuntimeInfo struct {
	// Name is how container ids begin in a status. Nil: not known.
	Name func() string
	// CanMapUsers tells whether a handler of the runtime can give a pod a user namespace of its own.
	CanMapUsers func(handler string) bool
	// CheckLabel tells why no container can have such a SELinux label. Nil: any can.
	CheckLabel func(*v1.SELinuxOptions) error
	// ImageUser returns the user that an image asks for.
	ImageUser func(ctx context.Context, ref string) (render.User, error)
	// Explain turns an error of the runtime into words for a status.
	Explain func(error) string
}

// Host is what pods get of the machine.
type Host struct {
	PodsDir     string // holds a directory of data for each pod
	LogLinksDir string // holds a link to the log of each container
	// IPs are the addresses of the machine now. Nil: not known.
	IPs func() []string
	// Resolver reads the machine's resolver settings, which a new sandbox takes over. Nil:
	// they are those of Node.
	Resolver func() (render.DNS, error)
	// Allocatable is what pods may have of the machine.
	Allocatable func() v1.ResourceList
	// MakeCgroup makes the cgroup of a pod with its limits. It may be there.
	MakeCgroup func(render.Cgroup) error
	// RemoveCgroup removes the cgroup of a pod that should have no process left.
	RemoveCgroup func(ctx context.Context, path string) error
	// RemoveDir removes a directory with all that is in it, and stops with an error at a
	// mount. A directory that is not there is no error.
	RemoveDir func(dir string) error
	// LogTail returns the end of a container's log, for its termination message.
	LogTail        func(path string, lines int64, bytes int) string
	UserNamespaces UserNamespaces
}

// Reports are the receivers of what becomes of a pod.
type Reports struct {
	Statuses *status.Store
	Events   Events
	Upstream Upstream
	// Telemetry measures and traces what is done. Nil: nothing is measured.
	Telemetry Telemetry
	// PodGone is told that nothing of a pod is left.
	PodGone func(pod.UID)
}

// Config is what an Executor is made of, grouped by whom it talks to.
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

	Node    render.Node  // what containers take over from the machine
	Backoff plan.Backoff // between the restarts of a container
	Slots   *Slots
	Log     *slog.Logger
}

// validate tells what is missing in a Config.
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

// setDefaults replaces what may be nil.
func (c *Config) setDefaults() {
	if c.Reports.Telemetry == nil {
		c.Reports.Telemetry = noTelemetry{}
	}
	if c.RuntimeInfo.Name == nil {
		c.RuntimeInfo.Name = func() string { return "" }
	}
	if c.Host.IPs == nil {
		c.Host.IPs = func() []string { return nil }
	}
}
