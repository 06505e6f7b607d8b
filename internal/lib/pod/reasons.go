package pod

// Reasons that users know from the kubelet: why a container waits.
const (
	ReasonContainerCreating     = "ContainerCreating"
	ReasonPodInitializing       = "PodInitializing"
	ReasonCrashLoopBackOff      = "CrashLoopBackOff"
	ReasonErrImagePull          = "ErrImagePull"
	ReasonImagePullBackOff      = "ImagePullBackOff"
	ReasonErrImageNeverPull     = "ErrImageNeverPull"
	ReasonInvalidImageName      = "InvalidImageName"
	ReasonImageInspectError     = "ImageInspectError"
	ReasonCreateConfigError     = "CreateContainerConfigError"
	ReasonCreateContainerError  = "CreateContainerError"
	ReasonRunContainerError     = "RunContainerError"
	ReasonCreatePodSandboxError = "CreatePodSandboxError"
	ReasonNetworkNotReady       = "NetworkNotReady"
	ReasonPostStartHookError    = "PostStartHookError"
)

// Reasons for which a container ended, or a pod did not run.
const (
	ReasonCompleted              = "Completed"
	ReasonError                  = "Error"
	ReasonOOMKilled              = "OOMKilled"
	ReasonContainerStatusUnknown = "ContainerStatusUnknown"
	ReasonDeadlineExceeded       = "DeadlineExceeded"
	ReasonNodePorts              = "NodePorts"
	ReasonPreempting             = "Preempting"
	ReasonPodOSNotSupported      = "PodOSNotSupported"
	ReasonFeatureUnsupported     = "PodFeatureUnsupported"
)
