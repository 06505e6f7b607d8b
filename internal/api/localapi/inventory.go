package localapi

import (
	"context"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/lib/pod"
)

// Inventory is where the server reads what there is on the node beside pods. The
// server does not write to what it is given.
type Inventory interface {
	Node(ctx context.Context) (*v1.Node, error)
	Images(ctx context.Context) ([]api.Image, error)
	Volumes(ctx context.Context) ([]api.Volume, error)
	// Probes returns the last results of the probes of a pod.
	Probes(p *v1.Pod) []api.ProbeResult
}

// Waterfalls returns the phases of a pod's start and their times.
type Waterfalls interface {
	Waterfall(uid pod.UID) (api.Waterfall, bool)
}

func (s *Server) routeInventory(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/node", s.answer(s.machine))
	mux.HandleFunc("GET /v1/images", s.answer(s.images))
	mux.HandleFunc("GET /v1/volumes", s.answer(s.volumes))
	mux.HandleFunc("GET /v1/namespaces/{namespace}/pods/{name}/probes", s.answer(s.probes))
	mux.HandleFunc("GET /v1/namespaces/{namespace}/pods/{name}/waterfall", s.answer(s.waterfall))
}

// unknown is the answer of an agent that was not given something.
func unknown(what string) *problem {
	return problemf(http.StatusNotImplemented, "this agent does not know about %s", what)
}

// answerList answers with the list that get returns.
func answerList[T, L any](r *http.Request, get func(context.Context) ([]T, error), list func([]T) L) (any, *problem) {
	items, err := get(r.Context())
	if err != nil {
		return nil, problemf(http.StatusInternalServerError, "%v", err)
	}
	if items == nil {
		items = []T{}
	}
	return list(items), nil
}

func (s *Server) machine(r *http.Request) (any, *problem) {
	if s.inventory == nil {
		return nil, unknown("its node")
	}
	n, err := s.inventory.Node(r.Context())
	if err != nil {
		return nil, problemf(http.StatusInternalServerError, "%v", err)
	}
	named := *n
	named.APIVersion, named.Kind = "v1", "Node"
	return &named, nil
}

func (s *Server) images(r *http.Request) (any, *problem) {
	if s.inventory == nil {
		return nil, unknown("images")
	}
	return answerList(r, s.inventory.Images, func(items []api.Image) api.ImageList { return api.ImageList{Items: items} })
}

func (s *Server) volumes(r *http.Request) (any, *problem) {
	if s.inventory == nil {
		return nil, unknown("volumes")
	}
	return answerList(r, s.inventory.Volumes, func(items []api.Volume) api.VolumeList { return api.VolumeList{Items: items} })
}

func (s *Server) probes(r *http.Request) (any, *problem) {
	if s.inventory == nil {
		return nil, unknown("probes")
	}
	p, problem := s.named(r)
	if problem != nil {
		return nil, problem
	}
	return api.ProbeList{Items: append([]api.ProbeResult{}, s.inventory.Probes(p)...)}, nil
}

func (s *Server) waterfall(r *http.Request) (any, *problem) {
	if s.waterfalls == nil {
		return nil, unknown("how pods start")
	}
	p, problem := s.named(r)
	if problem != nil {
		return nil, problem
	}
	w, ok := s.waterfalls.Waterfall(p.UID)
	if !ok {
		return nil, problemf(http.StatusNotFound, "how pod %s started is not known: either it was not begun with yet, or it was up before the agent was started. "+
			"The agent keeps the first start of each pod in memory, and a restarted one knows of none before it, nor of containers that are restarted later", pod.Ref(p))
	}
	return w, nil
}
