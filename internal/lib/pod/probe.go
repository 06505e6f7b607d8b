package pod

// ProbeResult is the result of a probe that changed. Its receiver enqueues the pod.
type ProbeResult struct {
	UID         UID
	ContainerID string
	Success     bool
}

// Health is the result of all probes of one container so far.
type Health struct {
	// Started and Ready are nil if the container has no probe for them.
	Started, Ready *bool
	// Dead says which probe gave the container up, and why. It is empty while it lives.
	Dead string
	// Grace is the grace period of that probe in seconds. Nil: that of the pod.
	Grace *int64
}
