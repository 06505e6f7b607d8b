package pod

// ProbeResult is what a probe found out about a container. Like every fact it
// only says that the pod is worth another look.
type ProbeResult struct {
	UID         UID
	ContainerID string
	Success     bool
}
