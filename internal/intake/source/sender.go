package source

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/lib/pod"
)

// manifests are the accepted and refused objects of one file or URL.
type manifests struct {
	origin   string
	accepted []acceptedObject
	refused  []pod.Refusal
}

// content is all that a source has, by what becomes of it.
type content struct {
	pods    []*v1.Pod
	objects []runtime.Object
	refused []pod.Refusal
}

// collect puts the manifests of a source together. Of several objects of the same
// kind and name the first one counts, and the others are refused. Pods of the same name
// are left to package merge, which compares those of all sources.
func (in intake) collect(all []manifests) content {
	var c content
	type name struct{ kind, ref string }
	definedIn := map[name]string{}
	for _, m := range all {
		c.refused = append(c.refused, m.refused...)
		for _, o := range m.accepted {
			if p, isPod := o.object.(*v1.Pod); isPod {
				c.pods = append(c.pods, p)
				continue
			}
			if o.unreadable() {
				c.refused = append(c.refused, in.refuseUnreadable(m.origin, o))
				continue
			}
			n := name{kindOf(o), refOf(o)}
			if first, taken := definedIn[n]; taken {
				what := n.kind + " " + n.ref
				c.refused = append(c.refused, pod.Refusal{
					Source: in.source, Origin: m.origin, Object: what,
					Message: fmt.Sprintf("%s is already defined in %s: rename one of the two, or remove it", what, first),
				})
				continue
			}
			definedIn[n] = m.origin
			c.objects = append(c.objects, o.object)
		}
	}
	return c
}

// sender sends objects and snapshots that differ from the last ones.
type sender struct {
	out      chan<- pod.Snapshot
	objects  func(context.Context, []runtime.Object) // nil: objects are not sent
	complete func(*v1.Pod) *v1.Pod                   // nil: pods are complete

	last        *pod.Snapshot
	sentObjects []runtime.Object
	objectsSent bool // sentObjects were sent, also if there are none
}

// sendObjects sends the objects that pods refer to, if they changed.
func (s *sender) sendObjects(ctx context.Context, objects []runtime.Object) {
	if s.objects == nil || s.objectsSent && equality.Semantic.DeepEqual(s.sentObjects, objects) {
		return
	}
	s.objectsSent, s.sentObjects = true, objects
	s.objects(ctx, slices.Clone(objects))
}

// unchanged reports whether a snapshot equals the last one that was sent.
func (s *sender) unchanged(snapshot pod.Snapshot) bool {
	return s.last != nil && s.last.Op == snapshot.Op && s.last.Unreadable == snapshot.Unreadable && slices.Equal(s.last.Refused, snapshot.Refused) &&
		equality.Semantic.DeepEqual(s.last.Pods, snapshot.Pods)
}

// send sends the objects and then the snapshot, each if it changed. It returns false if
// the context ended first.
func (s *sender) send(ctx context.Context, snapshot pod.Snapshot, objects []runtime.Object) bool {
	s.sendObjects(ctx, objects)
	if s.complete != nil {
		snapshot.Pods = slices.Clone(snapshot.Pods)
		for i, p := range snapshot.Pods {
			snapshot.Pods[i] = s.complete(p)
		}
	}
	if s.unchanged(snapshot) {
		return true
	}
	select {
	case s.out <- snapshot:
		s.last = &snapshot
		return true
	case <-ctx.Done():
		return false
	}
}
