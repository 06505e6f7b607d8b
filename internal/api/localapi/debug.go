package localapi

import (
	"encoding/json"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/find"
	"berth/internal/lib/pod"
)

// addDebug adds an ephemeral container to a static pod that runs. To a pod of an API server it
// has to be added there.
func (s *Server) addDebug(r *http.Request) (any, *problem) {
	if s.debugs == nil {
		return nil, problemf(http.StatusNotImplemented, "this node can't add containers to its pods")
	}
	p, problem := s.named(r)
	if problem != nil {
		return nil, problem
	}
	name := find.ManifestName(p)
	switch {
	case !pod.IsStatic(p):
		return nil, problemf(http.StatusConflict, "pod %s comes from an API server, which has to know of all its containers: use 'kubectl debug -n %s %s'", name, p.Namespace, name)
	case pod.HasEnded(p) || p.DeletionTimestamp != nil:
		return nil, problemf(http.StatusConflict, "pod %s has ended, or is about to: there is nothing to look into", name)
	}
	var c v1.EphemeralContainer
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields()
	if err := body.Decode(&c); err != nil {
		return nil, problemf(http.StatusBadRequest, "the container is not understood: %v", err)
	}
	if err := s.debugs.AddContainer(r.Context(), p, c); err != nil {
		return nil, problemf(http.StatusConflict, "%v", err)
	}
	return c, nil
}

// serveNode passes a request on to the node's API. What it turns into streams
// counts as one.
func (s *Server) serveNode(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		s.nodeAPI.ServeHTTP(w, r)
		return
	}
	s.stream(func(w http.ResponseWriter, r *http.Request) *problem {
		s.nodeAPI.ServeHTTP(w, r)
		return nil
	})(w, r)
}
