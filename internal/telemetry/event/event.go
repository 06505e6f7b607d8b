// Package event records the events of pods and of the node: an image was pulled,
// a container was started, a probe failed, memory runs out.
//
// Callers hand an event to the Recorder, which never blocks. Its goroutine counts
// repeated events as one, combines similar ones and limits their rate, by the rules
// of client-go, and puts the rest into the Store. The Store keeps the newest events in memory for
// readers, and in a file, from which a restarted agent goes on.
//
// In a cluster an APISink writes the same to the API server, at its own pace.
//
// The Recorder is the only writer of a Store. An event that was handed out is
// never changed: an event that happens again replaces it under the same name.
package event

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"

	"berth/internal/lib/printable"
)

const (
	// defaultComponent is the source.component of events.
	defaultComponent = "berth"

	maxMessage = 1 << 10 // bytes
	maxReason  = 128     // bytes; API servers take no more
)

// refer returns a reference to a pod, or to a container of it if container is not empty.
func refer(p *v1.Pod, container string) v1.ObjectReference {
	return v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod",
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
		FieldPath: fieldPath(p, container),
	}
}

// referNode returns a reference to a node as kubelets make it: kubectl looks for events of nodes
// whose UID is the name.
func referNode(name string) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}

// fieldPath returns the path of a container in the spec of its pod.
func fieldPath(p *v1.Pod, container string) string {
	if container == "" {
		return ""
	}
	field := "containers"
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == container {
			field = "initContainers"
		}
	}
	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == container {
			field = "ephemeralContainers"
		}
	}
	return fmt.Sprintf("spec.%s{%s}", field, container)
}

// newEvent returns an event that happened once, reported by a component of a node.
func newEvent(component, node string, about v1.ObjectReference, kind, reason, message string, now time.Time) *v1.Event {
	at := metav1.NewTime(now)
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			// Objects without a namespace have their events in the default one.
			Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault),
			// A random number makes the name unique even if the clock is set back.
			Name: util.GenerateEventName(about.Name, rand.Int64()),
		},
		InvolvedObject:      about,
		Type:                kind,
		Reason:              oneLine(reason, maxReason),
		Message:             oneLine(message, maxMessage),
		FirstTimestamp:      at,
		LastTimestamp:       at,
		Count:               1,
		Source:              v1.EventSource{Component: component, Host: node},
		ReportingController: component,
		ReportingInstance:   node,
	}
}

// oneLine makes one short line of s that is safe to print: a message may hold the output of a
// container or of a registry.
func oneLine(s string, limit int) string { return printable.Head(printable.OneLine(s), limit) }
