package pod

import "errors"

// ErrNoAnswer says that the container runtime did not answer a call: the runtime may have done
// what the call asks for, or not. The error says nothing about the pod of the call.
var ErrNoAnswer = errors.New("the container runtime does not answer")
