package execute

import (
	"context"
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

// Config is what an Executor is made of.
type Config struct {
	Runtime        Runtime
	Images         Images
	Hooks          Hooks
	Probes         Probes
	Objects        Objects
	Volumes        Volumes
	UserNamespaces UserNamespaces
	Events         Events
	Upstream       Upstream
	Statuses       *status.Store
	Slots          *Slots
	Log            *slog.Logger
	Node           render.Node
	HostIPs        func() []string // as they are now; nil: not known
	// Resolver reads the machine's resolver settings, which a new sandbox takes over. Nil:
	// they are those of Node.
	Resolver func() (render.DNS, error)
	PodsDir  string // holds a directory of data for each pod
	LinksDir string // holds a link to the log of each container
	// RuntimeName is how container ids begin in a status.
	RuntimeName func() string
	Backoff     plan.Backoff
	// Allocatable is what pods may have of the machine.
	Allocatable func() v1.ResourceList
	// CanMapUsers tells whether a handler of the runtime can give a pod users of its own.
	CanMapUsers func(handler string) bool
	// CheckLabel tells why no container can have such a SELinux label. Nil: any can.
	CheckLabel func(*v1.SELinuxOptions) error
	// ImageUser tells who an image wants its processes to be.
	ImageUser func(ctx context.Context, ref string) (render.User, error)
	// MakeCgroup makes the cgroup of a pod with its limits. It may be there.
	MakeCgroup func(render.Cgroup) error
	// RemoveCgroup removes the cgroup of a pod that should have no process left.
	RemoveCgroup func(ctx context.Context, path string) error
	// RemoveDir removes a directory with all that is in it, and stops with an error at a
	// mount. One that is not there is fine.
	RemoveDir func(dir string) error
	// Explain turns an error of the runtime into words for a status.
	Explain func(error) string
	// LastLines returns the end of a container's log, for its last words.
	LastLines func(path string, lines int64, bytes int) string
	// PodGone is told that nothing of a pod is left.
	PodGone func(pod.UID)
	// Telemetry sees what is done. Nil: nobody does.
	Telemetry Telemetry
}
