package merge

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"berth/internal/lib/pod"
)

// difference has the pods that one snapshot has changed, by kind of change.
type difference struct {
	removed, added, restored, changed, deleted, reconciled []*v1.Pod

	first    bool // the first Set of its source
	refusals bool // the refusals are others than before

	unreadable bool // it was not known before that the source can't be read
}

// diff compares what is known with what was accepted, and returns what is known
// from now on.
func diff(old podSet, a accepted, s pod.Snapshot, now time.Time) (podSet, difference) {
	if s.Op == pod.Restore {
		return restore(old, a, s.Source, now)
	}
	var d difference
	entries := make([]*entry, 0, len(a.pods))
	for _, c := range a.pods {
		if c.keep != nil {
			entries = append(entries, c.keep)
			continue
		}
		was := old.byUID[c.given.UID]
		switch {
		case was == nil:
			e := newEntry(c.given, s.Source, now)
			d.added = append(d.added, e.pod)
			entries = append(entries, e)
		case was.given == c.given:
			entries = append(entries, was)
		default:
			e := newEntry(c.given, s.Source, pod.FirstSeen(was.pod))
			d.add(was.pod, e.pod)
			entries = append(entries, e)
		}
	}
	next := newPodSet(entries)
	for _, e := range old.entries {
		if next.byUID[e.pod.UID] == nil {
			d.removed = append(d.removed, e.pod)
		}
	}
	return next, d
}

// restore adds the remembered pods that are not known. They were seen before the
// restart, and keep that time.
func restore(old podSet, a accepted, source string, now time.Time) (podSet, difference) {
	var d difference
	entries := append([]*entry{}, old.entries...)
	for _, c := range a.pods {
		if c.keep != nil || old.byUID[c.given.UID] != nil {
			continue
		}
		seen := pod.FirstSeen(c.given)
		if seen.IsZero() {
			seen = now
		}
		e := newEntry(c.given, source, seen)
		d.restored = append(d.restored, e.pod)
		entries = append(entries, e)
	}
	return newPodSet(entries), d
}

// add files a new version under what it changed, if that matters.
func (d *difference) add(was, is *v1.Pod) {
	same := sameOrder(was, is)
	switch {
	case !same && is.DeletionTimestamp != nil:
		d.deleted = append(d.deleted, is)
	case !same:
		d.changed = append(d.changed, is)
	case !apiequality.Semantic.DeepEqual(&was.Status, &is.Status):
		d.reconciled = append(d.reconciled, is)
	}
}

// sameOrder reports whether two versions of a pod ask for the same.
func sameOrder(a, b *v1.Pod) bool {
	return apiequality.Semantic.DeepEqual(a.DeletionTimestamp, b.DeletionTimestamp) &&
		apiequality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) &&
		maps.Equal(a.Labels, b.Labels) &&
		sameAnnotations(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

// sameAnnotations compares what users and controllers wrote.
func sameAnnotations(a, b map[string]string) bool {
	theirs := 0
	for key, value := range a {
		if isOurs(key) {
			continue
		}
		theirs++
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	for key := range b {
		if !isOurs(key) {
			theirs--
		}
	}
	return theirs == 0
}

// isOurs reports whether berth writes an annotation on the pods of its sources. The
// mirror annotation is not among them: it says what kind of pod this is.
func isOurs(annotation string) bool {
	switch annotation {
	case pod.AnnotationSource, pod.AnnotationSeen, pod.AnnotationHash:
		return true
	default:
		return false
	}
}

// newEntry notes source and first-seen time on a pod. The copy is a shallow one:
// only the annotations are written to.
func newEntry(given *v1.Pod, source string, seen time.Time) *entry {
	annotations := make(map[string]string, len(given.Annotations)+2)
	maps.Copy(annotations, given.Annotations)
	annotations[pod.AnnotationSource] = source
	annotations[pod.AnnotationSeen] = seen.Format(time.RFC3339Nano)

	delivered := *given
	delivered.Annotations = annotations
	return &entry{given: given, pod: &delivered}
}
