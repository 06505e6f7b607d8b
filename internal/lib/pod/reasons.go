package pod

// Waiting reasons of containers, as the kubelet has them.
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

// Reasons for which a container has terminated, or a pod has failed.
const (
	ReasonCompleted              = "Completed"
	ReasonError                  = "Error"
	ReasonOOMKilled              = "OOMKilled"
	ReasonContainerStatusUnknown = "ContainerStatusUnknown"
	ReasonDeadlineExceeded       = "DeadlineExceeded"
	ReasonAttachLimitExceeded    = "VolumeAttachmentLimitExceeded"
	ReasonNodePorts              = "NodePorts"
	ReasonPreempting             = "Preempting"
	ReasonPodOSNotSupported      = "PodOSNotSupported"
	ReasonFeatureUnsupported     = "PodFeatureUnsupported"
)
