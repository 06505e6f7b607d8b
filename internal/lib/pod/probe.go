package pod

// ProbeResult is what a probe found out about a container. Like every fact it
// only says that the pod is worth another look.
type ProbeResult struct {
	UID         UID
	ContainerID string
	Success     bool
}

// Health is what probes have found out about one container so far.
type Health struct {
	// Started and Ready are nil if no probe has a say in it.
	Started, Ready *bool
	// Dead says which probe gave the container up, and why. It is empty while it lives.
	Dead string
	// Grace is how many seconds that probe leaves the container to stop. Nil: as
	// many as the pod has.
	Grace *int64
}
