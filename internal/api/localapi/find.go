package localapi

import (
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/find"
)

// problem is an answer other than 200: its code, and the text for the user.
type problem struct {
	code int
	text string
}

func problemf(code int, format string, args ...any) *problem {
	return &problem{code: code, text: fmt.Sprintf(format, args...)}
}

// notFound returns the answer for an error of package find.
func notFound(err *find.Error) *problem {
	if err.Missing {
		return problemf(http.StatusNotFound, "%v", err)
	}
	return problemf(http.StatusBadRequest, "%v", err)
}

// named returns the pod that the path of a request names.
func (s *Server) named(r *http.Request) (*v1.Pod, *problem) {
	pods, _ := s.pods.List()
	p, err := find.Filter{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}.One(pods)
	if err != nil {
		return nil, notFound(err)
	}
	return p, nil
}
