package pod

import "time"

// Observed is what the runtime was last seen to hold of one pod.
type Observed struct {
	UID       UID
	Name      string
	Namespace string

	// Sandboxes and Containers are ordered from the newest to the oldest.
	Sandboxes  []Sandbox
	Containers []Container

	// At is the moment at which reading began: whatever happened before is in it.
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
	Hash      string    // AnnotationSpecHash, as given when it was made
	FirstSeen time.Time // AnnotationSeen of the pod, as given when it was made

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
	// ReadOnlyBelow are the paths on which volumes are mounted so that whatever is
	// mounted below them is read-only, too.
	ReadOnlyBelow []string

	Hash         string        // AnnotationSpecHash, as given when it was made
	Round        int           // how many restarts of all containers came before it
	Attempt      int32         // how many of the same name came before: it tells apart what they leave
	RestartCount int32         // how many of them came before in the same life of the pod
	Backoff      time.Duration // how long to wait after its end before the next
	Grace        int64         // seconds that it has to stop

	// PreviousLife: the container is of a life of the pod that is over: the agent stopped the
	// pod, say for a drain, and now runs it again. The end of the container is no crash, and
	// does not count for what follows. The runtime does not know that: plan.MarkPreviousLife
	// sets it.
	PreviousLife bool

	// Starting: the postStart hook did not end yet. Although the container runs, no step that
	// follows its start is due. The runtime does not know that.
	Starting bool

	// Health is the result of the container's probes. The runtime does not know it: it is
	// added before the observation is passed to plan.
	Health Health
}

// Labels and annotations on what berth makes in a runtime. The labels are the
// kubelet's, because log shippers, crictl and monitoring look for them; with the
// annotations, all that a restarted agent needs to know is in the runtime.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	LabelRoot          = "berth.dev/root" // id of the root directory whose agent made it

	AnnotationSpecHash     = "berth.dev/spec-hash"
	AnnotationBackoff      = "berth.dev/backoff"
	AnnotationRound        = "berth.dev/round"
	AnnotationRestartCount = "io.kubernetes.container.restartCount"
	AnnotationGrace        = "io.kubernetes.pod.terminationGracePeriod"
)

// Running tells whether anything of the pod is alive.
func (o Observed) Running() bool {
	for _, s := range o.Sandboxes {
		if s.State == SandboxReady {
			return true
		}
	}
	for _, c := range o.Containers {
		if c.State == ContainerRunning || c.State == ContainerUnknown {
			return true
		}
	}
	return false
}

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
	// Again asks for another sync at once: an action was executed, so the observation that
	// led to it is out of date.
	Again bool
	// Due is when the next sync is due if the pod is not enqueued before. Zero: never.
	Due time.Time
	// Finished: no container of the pod runs, and none ever will.
	Finished bool
	// Message is why the pod is finished: "its containers ended".
	Message string
}
