package event

// Reasons of events, in the words that users, alerts and dashboards know from
// the kubelet.
const (
	// Reasons that concern images.

	Pulling           = "Pulling"
	Pulled            = "Pulled"
	InspectFailed     = "InspectFailed"
	ErrImageNeverPull = "ErrImageNeverPull"

	FailedToRetrieveImagePullSecret = "FailedToRetrieveImagePullSecret" // not a secret

	// Reasons that concern containers. Failed and BackOff are recorded for images, too: the message
	// says which.

	Created             = "Created"
	Started             = "Started"
	Killing             = "Killing"
	Failed              = "Failed"
	BackOff             = "BackOff"
	FailedPostStartHook = "FailedPostStartHook"
	FailedPreStopHook   = "FailedPreStopHook"
	OOMKilling          = "OOMKilling" // as node-problem-detector has it
	// LifecycleHTTPFallback is recorded for an HTTPS hook whose server speaks plain HTTP.
	LifecycleHTTPFallback = "LifecycleHTTPFallback"

	// Reasons that concern probes.

	Unhealthy    = "Unhealthy"
	ProbeWarning = "ProbeWarning"

	// Reasons that concern pods and their sandboxes.

	FailedCreatePodSandBox = "FailedCreatePodSandBox"
	SandboxChanged         = "SandboxChanged"

	// HostIPsIPFamilyMismatch is recorded if the first host IP of a pod changes its family.
	HostIPsIPFamilyMismatch = "HostIPsIPFamilyMismatch"

	NetworkNotReady       = "NetworkNotReady"
	FailedMount           = "FailedMount"
	FailedMapVolume       = "FailedMapVolume" // FailedMount of a block device
	SuccessfulMountVolume = "SuccessfulMountVolume"
	FailedUnmount         = "FailedUnmount"
	FailedSync            = "FailedSync"
	FailedKillPod         = "FailedKillPod"
	DeadlineExceeded      = "DeadlineExceeded"

	// FailedCreatePodContainer is about the cgroup of a pod, which was called container once.
	FailedCreatePodContainer = "FailedCreatePodContainer"

	// Reasons that concern the node.

	NodeAllocatableEnforced          = "NodeAllocatableEnforced"
	FailedNodeAllocatableEnforcement = "FailedNodeAllocatableEnforcement"
	CgroupV1                         = "CgroupV1"

	PossibleMemoryBackedVolumesOnDisk = "PossibleMemoryBackedVolumesOnDisk"
	SystemOOM                         = "SystemOOM"

	CheckLimitsForResolvConf = "CheckLimitsForResolvConf"
)
