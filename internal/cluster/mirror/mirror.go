// Package mirror keeps the mirror pods of static pods at the API server.
//
// A static pod comes from a file or a URL, and the API server knows nothing of it.
// Its mirror pod is a copy there, for people and tools to see. The static pod is
// the original: a mirror that was deleted or changed is made anew, and nothing that
// happens to it touches the pod that runs.
//
// Of makes the copy and Judge compares; both are pure. The Manager brings the API
// server in line, on its own goroutine: a server that is away holds up no pod.
package mirror

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// AnnotationOmits names the parts of a static pod that its mirror lacks: a node may
// not create pods that refer to Secrets, ConfigMaps or other objects.
const AnnotationOmits = "berth.dev/mirror-omits"

// Of returns the mirror pod of a static pod, as it is to be created.
func Of(static *v1.Pod, node *v1.Node) *v1.Pod {
	spec := static.Spec.DeepCopy()
	spec.NodeName = node.Name
	// The API server fills these in from the priority class, and refuses others.
	spec.Priority, spec.PreemptionPolicy = nil, nil
	omitted := omit(spec)

	annotations := make(map[string]string, len(static.Annotations)+2)
	maps.Copy(annotations, static.Annotations)
	annotations[pod.AnnotationMirror] = hash(static)
	if len(omitted) > 0 {
		annotations[AnnotationOmits] = strings.Join(omitted, ", ")
	}
	controller := true
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: static.Name, Namespace: static.Namespace,
			Labels: maps.Clone(static.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &controller,
			}},
		},
		Spec: *spec,
	}
}

// hash returns the value of the annotation by which an edit of a static pod is noticed.
func hash(static *v1.Pod) string {
	if h := static.Annotations[pod.AnnotationHash]; h != "" {
		return h
	}
	return string(static.UID)
}

// Verdict says whether a mirror pod is kept, created or renewed.
type Verdict int

const (
	// Keep says that the mirror pod is right.
	Keep Verdict = iota
	// Create says that there is no mirror pod.
	Create
	// Renew says that the mirror pod is being deleted, or is not the mirror of this pod on this
	// node as it was created. It is deleted, and created again.
	Renew
)

// Judge compares a static pod with its mirror pod; nil: it has none.
//
// Servers and their webhooks fill in a pod as it is created, so its spec is not
// compared with ours. A later change of the spec shows in its generation.
//
// The kubelet goes by the hash in the annotation alone (and the deletion). Annotations
// and labels that were added at the API server, or annotations that were changed there, stay here
// as with the kubelet: people and tools leave notes on a pod that way, and nothing runs by them. The
// labels of the static pod have to be right, for services and policies select by them.
func Judge(static, mirror *v1.Pod, node *v1.Node) Verdict {
	if mirror == nil {
		return Create
	}
	owned := slices.ContainsFunc(mirror.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == node.UID })
	switch {
	case mirror.DeletionTimestamp != nil,
		mirror.Annotations[pod.AnnotationMirror] != hash(static),
		mirror.Generation > 1,
		!owned:
		return Renew
	}
	for key, value := range static.Labels {
		if have, ok := mirror.Labels[key]; !ok || have != value {
			return Renew
		}
	}
	return Keep
}
