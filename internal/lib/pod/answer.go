package pod

import "errors"

// ErrNoAnswer says that the container runtime did not answer: what was asked of it may have
// been done or not. It says nothing of the pod that the call was about.
var ErrNoAnswer = errors.New("the container runtime does not answer")
