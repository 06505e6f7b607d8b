package pod

// Cause is the cause for which a pod is stopped, and the status that the pod gets for it.
type Cause struct {
	// Description is why the pod is stopped, for the log: "it was deleted".
	Description string
	// Reason and Message are for the status. With a Reason, the agent ends a pod that would
	// have gone on, and the phase of the pod is Failed. Without one, the exit codes of the
	// containers decide the phase.
	Reason, Message string
	// Disruption is the message of the condition DisruptionTarget of the pod, by which
	// controllers can tell this end from a failure of the pod itself. Empty: no condition.
	Disruption string
	// Passing: the cause may pass, as a drain does. A static pod then runs again, since no
	// controller would make another pod in its place.
	Passing bool
}
