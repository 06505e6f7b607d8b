package pod

import v1 "k8s.io/api/core/v1"

// Changes are the changes of the node's pods since a version.
type Changes struct {
	// Version is the version of the reader after these changes. It is never 0, which is the
	// version of a reader that knows no pods yet.
	Version uint64
	// All: Pods are all pods of the node, because the version of the reader is 0 or too old.
	// Other pods that the reader knows are gone.
	All bool
	// Pods are the new and changed pods, sorted by namespace, name and UID. A pod is never
	// written to: the same pointer is the same state.
	Pods []*v1.Pod
	// Gone are the pods that are not there any more. The reader may never have known one.
	Gone []UID
	// Refused are all refusals that stand, if NewRefusals says that they may be others.
	Refused     []Refusal
	NewRefusals bool
}
