package pod

// ProbeResult is a result of a probe that differs from the one before. Its receiver enqueues the
// pod.
type ProbeResult struct {
	UID         UID
	ContainerID string
	Success     bool
}

// Health is the result of all probes of one container so far.
type Health struct {
	// Started and Ready are nil if the container has no probe for them.
	Started, Ready *bool
	// Dead is the message of the startup or liveness probe that has failed for good. It is empty
	// while none has.
	Dead string
	// Grace is the grace period of that probe in seconds. Nil: that of the pod.
	Grace *int64
}
