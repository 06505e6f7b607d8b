package server

import (
	"encoding/json"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/pod"
	"berth/internal/server/api"
)

func (s *Server) servePods(w http.ResponseWriter, r *http.Request) {
	q := &query{r: r}
	f := filter{namespace: q.text("namespace"), name: q.text("name")}
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

func (s *Server) list(f filter) (*api.List, *problem) {
	pods, refused := s.pods.List()
	chosen := f.choose(pods)
	if f.name != "" && len(chosen) == 0 {
		return nil, f.notFound()
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

// serveWatch tells the state and then what changes of it. It reads the state
// when the reader has taken all that came before, so that changes which come
// faster are told as one, and nothing piles up.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, f filter) *problem {
	ctx := r.Context()
	changed := s.pods.Watch(ctx) // before the first look, so that no change is missed
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	flush := http.NewResponseController(w).Flush

	var was told
	for synced := false; ; synced = true {
		pods, refused := s.pods.List()
		now, events := was.next(f.choose(pods), refused)
		was = now
		if !synced {
			events = append(events, api.Event{Type: api.Synced})
		}
		for _, e := range events {
			if err := out.Encode(e); err != nil {
				return nil // the reader is gone
			}
		}
		if err := flush(); err != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-changed:
			if !open {
				return nil
			}
		}
	}
}
