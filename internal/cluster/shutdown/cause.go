package shutdown

import (
	"errors"

	"berth/internal/lib/pod"
)

// ReasonTerminated is the status.reason of a pod that was stopped by a shutdown or a drain.
const ReasonTerminated = "Terminated"

const messageShutdown = "Pod was terminated in response to imminent node shutdown."

const messageDrain = "Pod was terminated because its node was drained with 'berth drain'."

// goesDown and drained return the causes with which pods are ended.
func goesDown() pod.Cause {
	return pod.Cause{
		Description: "the machine goes down", Reason: ReasonTerminated, Message: messageShutdown, Disruption: messageShutdown, Passing: true,
	}
}

func drained() pod.Cause {
	return pod.Cause{
		Description: "the node is drained", Reason: ReasonTerminated, Message: messageDrain, Disruption: messageDrain, Passing: true,
	}
}

var (
	// ErrBusy says that a drain was refused because another drain or a shutdown is under way.
	ErrBusy = errors.New("another drain is under way: wait for its end, or end it with 'berth drain --undo'")
	// ErrGoingDown says that a drain, or its undoing, was refused because the machine is shutting
	// down.
	ErrGoingDown = errors.New("the machine is shutting down")

	errNoPeriods = errors.New("shutdown: no periods are configured")
	errUndone    = errors.New("the drain was undone by 'berth drain --undo'")
	errCancelled = errors.New("the shutdown of the machine was cancelled")
	errDrained   = errors.New("it was drained; 'berth drain --undo' lets pods run again")
	errPrepares  = errors.New("the machine is about to go down")
)
