package pod

// Cause is why a pod is stopped, and what that makes of its status.
type Cause struct {
	// Why is for whoever reads the log.
	Why string
	// Reason and Message are for users: with a reason, the agent ended a pod that
	// would have gone on, and it is Failed. Without one it ends as its containers do.
	Reason, Message string
	// Disruption is the message of the condition DisruptionTarget that the pod is
	// given, so that controllers can tell this end from a failure of its own. Empty:
	// none.
	Disruption string
	// Passing says that the cause may pass. A static pod then runs again: nobody
	// else would make another one in its place.
	Passing bool
}
