// Package pod holds the words that every stage of berth shares: where a pod
// came from, what changed about it, what the runtime was seen to do with it,
// and the reasons that users read in a status.
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

// UID names one life of a pod. Two pods of the same name never share one.
type UID = types.UID

// The sources that pods come from, as users read them in the source annotation.
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
	// Delete brings pods that were asked to go: their deletion time is set.
	Delete
	// Remove brings pods that are no longer in their source.
	Remove
	// Reconcile brings pods of which only the status differs from ours.
	Reconcile
	// Restore brings pods remembered from before a restart. They count as
	// additions, and do not make their source ready. Those that do not run are not
	// started before their source is ready, or known to be unreadable.
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
	Origin  string `json:"origin"`           // the file or URL
	Line    int    `json:"line,omitempty"`   // counted from 1; 0 if unknown
	Pod     string `json:"pod,omitempty"`    // namespace/name, if it is a pod and could be read
	Object  string `json:"object,omitempty"` // what else it is, as in ConfigMap default/settings, likewise
	Message string `json:"message"`
	Kept    bool   `json:"kept"` // the last good version is still in force
	// UID is set for a pod that this version of berth can't read any more. Its containers go
	// on untouched: the pod is not started, changed or ended.
	UID UID `json:"uid,omitempty"`
}

// IsStatic tells whether p came from a file or a URL rather than an API server.
func IsStatic(p *v1.Pod) bool {
	s := Source(p)
	return s == SourceFile || s == SourceHTTP
}

// IsMirror tells whether p is the API server's copy of a static pod.
func IsMirror(p *v1.Pod) bool {
	_, ok := p.Annotations[AnnotationMirror]
	return ok
}

// Source returns the source that merge noted on p.
func Source(p *v1.Pod) string { return p.Annotations[AnnotationSource] }

// HasEnded tells whether the source of p says that it has run to its end. Such a
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

// IsCritical tells whether p goes before others: static pods and those of a
// system priority class.
func IsCritical(p *v1.Pod) bool {
	return IsStatic(p) || (p.Spec.Priority != nil && *p.Spec.Priority >= lowestCriticalPriority)
}

// DefaultGrace is how long a pod has to stop if its manifest does not say.
const DefaultGrace = int64(30)

// Grace is the time in seconds that p may take to stop: what a deletion asked
// for, else what its spec says.
func Grace(p *v1.Pod) int64 {
	if p.DeletionGracePeriodSeconds != nil {
		return *p.DeletionGracePeriodSeconds
	}
	if p.Spec.TerminationGracePeriodSeconds != nil {
		return *p.Spec.TerminationGracePeriodSeconds
	}
	return DefaultGrace
}
