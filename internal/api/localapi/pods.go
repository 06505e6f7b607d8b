package localapi

import (
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/api"
	"berth/internal/api/find"
	"berth/internal/lib/pod"
)

func (s *Server) servePods(w http.ResponseWriter, r *http.Request) {
	q := &query{r: r}
	f := find.Filter{Namespace: q.text("namespace"), Name: q.text("name")}
	watch := q.flag("watch")
	switch {
	case q.problem != nil:
		fail(w, q.problem)
	case watch:
		s.stream(func(w http.ResponseWriter, r *http.Request) *problem { return s.serveWatch(w, r, f) })(w, r)
	default:
		s.answer(func(*http.Request) (any, *problem) { return s.list(f) })(w, r)
	}
}

func (s *Server) list(f find.Filter) (*api.List, *problem) {
	pods, refused := s.pods.List()
	chosen := f.Choose(pods)
	if f.Name != "" && len(chosen) == 0 {
		return nil, notFound(f.NotFound())
	}
	list := &api.List{
		Pods:    v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}},
		Refused: append([]pod.Refusal{}, refused...),
	}
	for _, p := range chosen {
		list.Pods.Items = append(list.Pods.Items, *withKind(p))
	}
	return list, nil
}

// serveWatch sends the pods, and then their changes. It looks only at what changed:
// many watchers and many pods must not be many times many comparisons.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, f find.Filter) *problem {
	var was sent
	var version uint64
	return serveWatch(w, r, s.pods.Watch(r.Context()), func() (events []api.Event) {
		changes := s.pods.Since(version)
		version = changes.Version
		switch {
		case changes.All:
			was, events = was.next(f.Choose(changes.Pods), changes.Refused)
		case f.Name != "" && was.concernedBy(changes, f):
			// Which pods a name means depends on all that there are.
			pods, refused := s.pods.List()
			was, events = was.next(f.Choose(pods), refused)
		case f.Name != "":
			events = was.apply(pod.Changes{Refused: changes.Refused, NewRefusals: changes.NewRefusals}, f)
		default:
			events = was.apply(changes, f)
		}
		return events
	})
}
