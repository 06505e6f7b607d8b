// Package pod has the types that all stages of berth share: snapshots and updates of
// pods, observations of the runtime, causes and reasons.
//
// There is no behaviour here beyond reading a value, and no I/O. A *v1.Pod that
// has left package merge is never written to: a package that needs a changed pod makes a
// copy.
package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UID identifies a pod: a pod that is deleted and created again under the same name has another.
type UID = types.UID

// Values of AnnotationSource: the sources that pods come from.
const (
	SourceFile = "file"
	SourceHTTP = "http"
	SourceAPI  = "api"
)

// Annotations that berth writes on every pod it takes in. The keys are the
// kubelet's, because tools look for them.
const (
	AnnotationSource = "kubernetes.io/config.source"
	AnnotationSeen   = "kubernetes.io/config.seen"
	AnnotationHash   = "kubernetes.io/config.hash"
	AnnotationMirror = "kubernetes.io/config.mirror"
)

// Op says what an Update does to the pods that it carries.
type Op int

const (
	// Set replaces everything that is known of a source. Sources send it, and
	// merge sends it on in the two snapshot modes.
	Set Op = iota
	// Add brings pods that were not known before.
	Add
	// Change brings pods whose spec, labels, annotations or grace period differ.
	Change
	// Delete brings pods that are being deleted: their deletion time is set.
	Delete
	// Remove brings pods that are no longer in their source.
	Remove
	// Reconcile brings pods of which only the status differs from ours.
	Reconcile
	// Restore brings pods remembered from before a restart. They count as
	// additions, and do not make their source ready. A restored pod that does not run is not
	// started before its source is ready, or known to be unreadable.
	Restore
)

func (o Op) String() string {
	switch o {
	case Set:
		return "SET"
	case Add:
		return "ADD"
	case Change:
		return "UPDATE"
	case Delete:
		return "DELETE"
	case Remove:
		return "REMOVE"
	case Reconcile:
		return "RECONCILE"
	case Restore:
		return "RESTORE"
	default:
		return "UNKNOWN"
	}
}

// Snapshot holds all pods and refusals of a source. Op is Set, or Restore for the pods of
// the source's state file, from before a restart.
type Snapshot struct {
	Source  string
	Op      Op
	Pods    []*v1.Pod
	Refused []Refusal
	// Unreadable: a Restore of a source that can't be read at present. The pods of its state
	// file are all that is known.
	Unreadable bool
}

// Update is a change of the pods of one source, from merge to the agent.
type Update struct {
	Source     string
	Op         Op
	Pods       []*v1.Pod
	Refused    []Refusal
	Unreadable bool // as in the Snapshot
}

// Refusal is a manifest, or a pod or another object in a manifest, that was not accepted.
// The last good version of it, if there was one, stays in force.
type Refusal struct {
	Source  string `json:"source"`
	Origin  string `json:"origin"`           // the file or URL of the manifest
	Line    int    `json:"line,omitempty"`   // counted from 1; 0 if unknown
	Pod     string `json:"pod,omitempty"`    // namespace/name of a pod whose name could be read
	Object  string `json:"object,omitempty"` // the same for other kinds, as in ConfigMap default/settings
	Message string `json:"message"`
	Kept    bool   `json:"kept"` // the last good version is still in force
	// UID is set for a pod that this version of berth can't read any more. Its containers go
	// on untouched: the pod is not started, changed or ended.
	UID UID `json:"uid,omitempty"`
}

// IsStatic reports whether p came from a file or a URL rather than an API server.
func IsStatic(p *v1.Pod) bool {
	s := Source(p)
	return s == SourceFile || s == SourceHTTP
}

// IsMirror reports whether p is the API server's copy of a static pod.
func IsMirror(p *v1.Pod) bool {
	_, ok := p.Annotations[AnnotationMirror]
	return ok
}

// Source returns the source of p, which merge has put into an annotation.
func Source(p *v1.Pod) string { return p.Annotations[AnnotationSource] }

// HasEnded reports whether p has already run to its end according to its source. Such a
// pod never runs again, whatever became of its containers.
func HasEnded(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// FullName is the name of a pod within its node: name_namespace.
func FullName(p *v1.Pod) string { return p.Name + "_" + p.Namespace }

// Ref names p as users write it: namespace/name.
func Ref(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// FirstSeen is when merge saw p for the first time.
func FirstSeen(p *v1.Pod) time.Time {
	t, err := time.Parse(time.RFC3339Nano, p.Annotations[AnnotationSeen])
	if err != nil {
		return time.Time{}
	}
	return t
}

// Created orders pods by age: the API server's creation time where there is
// one, else the time at which berth first saw the pod.
func Created(p *v1.Pod) time.Time {
	if !p.CreationTimestamp.IsZero() {
		return p.CreationTimestamp.Time
	}
	return FirstSeen(p)
}

// lowestCriticalPriority is where the priorities of system classes begin.
const lowestCriticalPriority = 2_000_000_000

// IsCritical reports whether p is critical: other pods are preempted for it. Static pods are, and
// pods of a system priority class.
func IsCritical(p *v1.Pod) bool {
	return IsStatic(p) || (p.Spec.Priority != nil && *p.Spec.Priority >= lowestCriticalPriority)
}

// DefaultGrace is the grace period, in seconds, of a pod whose manifest has none.
const DefaultGrace = int64(30)

// Grace returns the grace period of p in seconds: that of its deletion, else that of its spec.
func Grace(p *v1.Pod) int64 {
	if p.DeletionGracePeriodSeconds != nil {
		return *p.DeletionGracePeriodSeconds
	}
	if p.Spec.TerminationGracePeriodSeconds != nil {
		return *p.Spec.TerminationGracePeriodSeconds
	}
	return DefaultGrace
}
