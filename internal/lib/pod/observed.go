package pod

import "time"

// Observed has the sandboxes and containers of one pod, as last read from the runtime.
type Observed struct {
	UID       UID
	Name      string
	Namespace string

	// Sandboxes and Containers are ordered from the newest to the oldest.
	Sandboxes  []Sandbox
	Containers []Container

	// CgroupGone: something of the pod runs, and its cgroup is not there. The runtime does not know that: it is added
	// before the observation is passed to plan.
	CgroupGone bool

	// EarlierRestarts are the restart counts with which the first containers of a pod begin, by name: the pod was removed and
	// added again under its UID. The runtime does not know that any more: it is added by package worker.
	EarlierRestarts map[string]int32

	// At is the time at which reading began: all earlier changes are in the observation.
	At time.Time
}

// SandboxState is the state of a sandbox.
type SandboxState int

const (
	SandboxNotReady SandboxState = iota
	SandboxReady
)

// Sandbox is one pod sandbox: the network namespace that a pod's containers share.
type Sandbox struct {
	ID        string
	Attempt   uint32
	State     SandboxState
	CreatedAt time.Time
	IPs       []string
	Hash      string    // AnnotationSpecHash of the sandbox
	FirstSeen time.Time // AnnotationSeen of the sandbox, which is that of the pod

	PreviousLife bool // as of a Container
}

// ContainerState is the state of a container.
type ContainerState int

const (
	ContainerUnknown ContainerState = iota
	ContainerCreated
	ContainerRunning
	ContainerExited
)

// Container is one container of a pod, running or dead.
type Container struct {
	ID         string
	Name       string
	SandboxID  string
	State      ContainerState
	Image      string // as the pod asked for it
	ImageRef   string // as the runtime resolved it
	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int32
	Reason     string
	Message    string
	LogPath    string
	// ReadOnlyBelow are the mount paths of volumes that are recursively read-only: all mounts
	// below them are read-only, too.
	ReadOnlyBelow []string

	Hash         string        // AnnotationSpecHash of the container
	Round        int           // number of earlier restarts of all containers of the pod
	Attempt      int32         // number of earlier containers of the same name; logs and messages are filed by it
	RestartCount int32         // the same, counted in the present life of the pod
	Backoff      time.Duration // wait between the end of this container and the start of the next
	Grace        int64         // seconds that the container has to stop

	// PreviousLife: the container is of a life of the pod that is over: the agent stopped the
	// pod, say for a drain, and now runs it again. The end of the container is no crash, and
	// does not count for what follows. The runtime does not know that: plan.MarkPreviousLife
	// sets it.
	PreviousLife bool

	// ToRestart: the agent stopped the container in order to run it again, since its spec changed or a probe failed. It is
	// restarted, whatever its exit code is. The runtime does not know that: package execute adds it.
	ToRestart bool

	// Starting: the postStart hook did not end yet. Although the container runs, no step that
	// follows its start is due. The runtime does not know that.
	Starting bool

	// Health is the result of the container's probes. The runtime does not know it: it is
	// added before the observation is passed to plan.
	Health Health
}

// Labels and annotations of the sandboxes and containers that berth makes. The labels are the
// kubelet's, because log shippers, crictl and monitoring look for them. A restarted agent reads
// the annotations: it needs no state file for containers.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	LabelRoot          = "berth.dev/root" // id of the root directory of the agent

	AnnotationSpecHash     = "berth.dev/spec-hash"
	AnnotationBackoff      = "berth.dev/backoff"
	AnnotationRound        = "berth.dev/round"
	AnnotationRestartCount = "io.kubernetes.container.restartCount"
	AnnotationGrace        = "io.kubernetes.pod.terminationGracePeriod"
)

// Running reports whether the sandbox of the pod is ready or a container may run.
func (o Observed) Running() bool {
	for _, s := range o.Sandboxes {
		if s.State == SandboxReady {
			return true
		}
	}
	for _, c := range o.Containers {
		if c.MayRun() {
			return true
		}
	}
	return false
}

// MayRun reports whether a container runs, or its state is unknown.
func (c Container) MayRun() bool { return c.State == ContainerRunning || c.State == ContainerUnknown }

// Container returns the newest container of that name, or nil.
func (o Observed) Container(name string) *Container {
	for i := range o.Containers {
		if o.Containers[i].Name == name {
			return &o.Containers[i]
		}
	}
	return nil
}

// Sandbox returns the newest sandbox, or nil.
func (o Observed) Sandbox() *Sandbox {
	if len(o.Sandboxes) == 0 {
		return nil
	}
	return &o.Sandboxes[0]
}

// Outcome is the result of one attempt to bring a pod to its desired state.
type Outcome struct {
	// Again asks for another sync at once: an action was executed, so the observation is out
	// of date.
	Again bool
	// Due is when the next sync is due if the pod is not enqueued before. Zero: never.
	Due time.Time
	// Finished: no container of the pod runs, and none ever will.
	Finished bool
	// Message is why the pod is finished: "its containers ended".
	Message string
}
