package event

// Reasons of events, in the words that users, alerts and dashboards know from
// the kubelet.
const (
	// Images.
	Pulling           = "Pulling"
	Pulled            = "Pulled"
	InspectFailed     = "InspectFailed"
	ErrImageNeverPull = "ErrImageNeverPull"

	FailedToRetrieveImagePullSecret = "FailedToRetrieveImagePullSecret" //nolint:gosec // not a secret

	// Containers. Failed and BackOff are also told of images: the message says
	// which it is.
	Created             = "Created"
	Started             = "Started"
	Killing             = "Killing"
	Failed              = "Failed"
	BackOff             = "BackOff"
	FailedPostStartHook = "FailedPostStartHook"
	FailedPreStopHook   = "FailedPreStopHook"
	ExceededGracePeriod = "ExceededGracePeriod"

	// Probes.
	Unhealthy    = "Unhealthy"
	ProbeWarning = "ProbeWarning"

	// Pods and their sandboxes.
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
)
