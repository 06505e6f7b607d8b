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
	ExceededGracePeriod = "ExceededGracePeriod"

	// Reasons that concern probes.

	Unhealthy    = "Unhealthy"
	ProbeWarning = "ProbeWarning"

	// Reasons that concern pods and their sandboxes.

	FailedCreatePodSandBox = "FailedCreatePodSandBox"
	FailedStatusPodSandBox = "FailedStatusPodSandBox"
	SandboxChanged         = "SandboxChanged"
	NetworkNotReady        = "NetworkNotReady"
	DNSConfigForming       = "DNSConfigForming"
	FailedMount            = "FailedMount"
	FailedUnmount          = "FailedUnmount"
	FailedSync             = "FailedSync"
	FailedValidation       = "FailedValidation"
	FailedKillPod          = "FailedKillPod"
	DeadlineExceeded       = "DeadlineExceeded"
	Evicted                = "Evicted"
	Preempting             = "Preempting"

	// Reasons that concern the node.

	NodeAllocatableEnforced          = "NodeAllocatableEnforced"
	FailedNodeAllocatableEnforcement = "FailedNodeAllocatableEnforcement"
)
