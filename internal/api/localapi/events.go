package localapi

import (
	"context"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/api"
	"berth/internal/lib/pod"
)

// noEvents is used if no events are recorded.
type noEvents struct{}

func (noEvents) List(string, string, pod.UID) []*v1.Event { return nil }
func (noEvents) Watch(context.Context) <-chan struct{}    { return nil }

func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	q := &query{r: r}
	watch := q.flag("watch")
	list := func() []*v1.Event {
		return s.events.List(q.text("namespace"), q.text("pod"), pod.UID(q.text("uid")))
	}
	switch {
	case q.problem != nil:
		fail(w, q.problem)
	case watch:
		s.stream(func(w http.ResponseWriter, r *http.Request) *problem {
			var was sentEvents
			return serveWatch(w, r, s.events.Watch(r.Context()), func() (newEvents []api.Event) {
				was, newEvents = was.next(list())
				return newEvents
			})
		})(w, r)
	default:
		s.answer(func(*http.Request) (any, *problem) { return eventList(list()), nil })(w, r)
	}
}

func eventList(events []*v1.Event) *v1.EventList {
	list := &v1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: []v1.Event{}}
	for _, e := range events {
		list.Items = append(list.Items, *eventWithKind(e))
	}
	return list
}

// sentEvents are the events that were sent to a watcher.
type sentEvents map[eventKey]*v1.Event

type eventKey struct{ namespace, name string }

// next returns the events that are new or changed, and the sent events after them. An old event
// that the store has dropped is not sent.
func (t sentEvents) next(events []*v1.Event) (sentEvents, []api.Event) {
	now := make(sentEvents, len(events))
	var newEvents []api.Event
	for _, e := range events {
		key := eventKey{e.Namespace, e.Name}
		now[key] = e
		switch before, known := t[key]; {
		case !known:
			newEvents = append(newEvents, api.Event{Type: api.Added, Event: eventWithKind(e)})
		case before != e: // events are never written to
			newEvents = append(newEvents, api.Event{Type: api.Modified, Event: eventWithKind(e)})
		}
	}
	return now, newEvents
}

// eventWithKind is withKind for events.
func eventWithKind(e *v1.Event) *v1.Event {
	named := *e
	named.APIVersion, named.Kind = "v1", "Event"
	return &named
}
