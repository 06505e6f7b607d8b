package server

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"berth/internal/pod"
	"berth/internal/server/api"
)

// told is what a watcher was told. It is no larger than the state itself,
// however slowly the watcher reads.
type told struct {
	pods    map[pod.UID]*v1.Pod
	refused map[pod.Refusal]bool
}

// next returns the events that bring a watcher from t to the given state, and
// what it was told then. What went comes before what came.
func (t told) next(pods []*v1.Pod, refused []pod.Refusal) (told, []api.Event) {
	now := told{pods: make(map[pod.UID]*v1.Pod, len(pods)), refused: make(map[pod.Refusal]bool, len(refused))}
	var gone, came []api.Event
	for _, p := range pods {
		now.pods[p.UID] = p
		before, known := t.pods[p.UID]
		switch {
		case !known:
			came = append(came, api.Event{Type: api.Added, Pod: withKind(p)})
		// Pods are never written to, so the same pointer is the same pod.
		case before != p && !equality.Semantic.DeepEqual(before, p):
			came = append(came, api.Event{Type: api.Modified, Pod: withKind(p)})
		}
	}
	for uid, p := range t.pods {
		if now.pods[uid] == nil {
			gone = append(gone, api.Event{Type: api.Deleted, Pod: withKind(p)})
		}
	}
	for _, r := range refused {
		if !t.refused[r] && !now.refused[r] {
			came = append(came, api.Event{Type: api.Refused, Refusal: &r})
		}
		now.refused[r] = true
	}
	for r := range t.refused {
		if !now.refused[r] {
			gone = append(gone, api.Event{Type: api.Resolved, Refusal: &r})
		}
	}
	return now, append(gone, came...)
}

// withKind returns p with its kind on it, for readers outside. What p holds is
// shared, not copied.
func withKind(p *v1.Pod) *v1.Pod {
	named := *p
	named.APIVersion, named.Kind = "v1", "Pod"
	return &named
}
