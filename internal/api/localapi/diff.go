package localapi

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"berth/internal/api"
	"berth/internal/api/find"
	"berth/internal/lib/pod"
)

// sent is the state that was sent to a watcher. It is no larger than the agent's state, however
// slowly the watcher reads.
type sent struct {
	pods    map[pod.UID]*v1.Pod
	refused map[pod.Refusal]bool
}

// next returns the events that bring a watcher from t to the given state, and the state
// after them. Deletions come before additions.
func (t sent) next(pods []*v1.Pod, refused []pod.Refusal) (sent, []api.Event) {
	now := sent{pods: make(map[pod.UID]*v1.Pod, len(pods)), refused: make(map[pod.Refusal]bool, len(refused))}
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
	resolved, added := now.refuse(t.refused, refused)
	return now, slices.Concat(gone, resolved, came, added)
}

// refuse stores all present refusals, and returns the events for those that are new or resolved
// since before.
func (t sent) refuse(before map[pod.Refusal]bool, refused []pod.Refusal) (resolved, added []api.Event) {
	for _, r := range refused {
		if !before[r] && !t.refused[r] {
			added = append(added, api.Event{Type: api.Refused, Refusal: &r})
		}
		t.refused[r] = true
	}
	for r := range before {
		if !t.refused[r] {
			resolved = append(resolved, api.Event{Type: api.Resolved, Refusal: &r})
		}
	}
	return resolved, added
}

// apply changes t by some changes of the pods that f matches, and returns the events that bring
// a watcher there. Deletions come before additions.
func (t *sent) apply(c pod.Changes, f find.Filter) []api.Event {
	var gone, came, resolved, added []api.Event
	for _, uid := range c.Gone {
		if p := t.pods[uid]; p != nil {
			gone = append(gone, api.Event{Type: api.Deleted, Pod: withKind(p)})
			delete(t.pods, uid)
		}
	}
	for _, p := range c.Pods {
		if !f.Matches(p) {
			continue
		}
		switch before := t.pods[p.UID]; {
		case before == nil:
			came = append(came, api.Event{Type: api.Added, Pod: withKind(p)})
		case before != p: // what changed was compared once, for all watchers
			came = append(came, api.Event{Type: api.Modified, Pod: withKind(p)})
		}
		t.pods[p.UID] = p
	}
	if c.NewRefusals {
		before := t.refused
		t.refused = make(map[pod.Refusal]bool, len(c.Refused))
		resolved, added = t.refuse(before, c.Refused)
	}
	return slices.Concat(gone, resolved, came, added)
}

// concernedBy reports whether changes are about pods that f matches, or that were sent to the watcher.
func (t sent) concernedBy(c pod.Changes, f find.Filter) bool {
	return slices.ContainsFunc(c.Pods, f.Matches) ||
		slices.ContainsFunc(c.Gone, func(uid pod.UID) bool { return t.pods[uid] != nil })
}

// withKind returns p with its kind on it, for readers outside. What p holds is
// shared, not copied.
func withKind(p *v1.Pod) *v1.Pod {
	named := *p
	named.APIVersion, named.Kind = "v1", "Pod"
	return &named
}
