package pod

// Cause is why a pod is stopped, and the status that it gets for that.
type Cause struct {
	// Description is why the pod is stopped, for the log: "it was deleted".
	Description string
	// Reason and Message are for users: with a reason, the agent ended a pod that
	// would have gone on, and it is Failed. Without one it ends as its containers do.
	Reason, Message string
	// Disruption is the message of the condition DisruptionTarget that the pod is
	// given, so that controllers can tell this end from a failure of its own. Empty:
	// none.
	Disruption string
	// Passing: the cause may pass. A static pod then runs again, since no controller would
	// make another pod in its place.
	Passing bool
}
