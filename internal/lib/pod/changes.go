package pod

import v1 "k8s.io/api/core/v1"

// Changes are what changed about the pods of the node after a version.
type Changes struct {
	// Version is the one that the reader has once it knows these changes. It is never 0:
	// that is the version of a reader who knows nothing.
	Version uint64
	// All says that Pods are all pods, and that whatever else the reader knows is gone:
	// it knew nothing, or a version that is too old.
	All bool
	// Pods are those that came or changed, by namespace, name and UID. Nobody writes to
	// a pod: the same pointer is the same state.
	Pods []*v1.Pod
	// Gone are the pods that are not there any more. The reader may never have known one.
	Gone []UID
	// Refused are all refusals that stand, if NewRefusals says that they may be others.
	Refused     []Refusal
	NewRefusals bool
}
