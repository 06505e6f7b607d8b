package localapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"berth/internal/api"
	"berth/internal/lib/progress"
)

// Images pulls, loads and removes the images of this node.
type Images interface {
	// Pull returns when the image is pulled. It calls report with the progress.
	Pull(ctx context.Context, image string, report func(progress.Progress)) error
	// Load imports an archive and returns the names of its images. It calls received when the
	// archive was read.
	Load(ctx context.Context, name string, archive io.Reader, received func()) ([]string, error)
	// Remove removes an image. The error says why it may not be, for users.
	Remove(ctx context.Context, image string) error
	// Collect removes unused images, or with dryRun returns which it would remove.
	Collect(ctx context.Context, dryRun, all bool) (api.GCReport, error)
}

func (s *Server) routeImages(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/images/pull", s.stream(s.pullImage))
	mux.HandleFunc("POST "+loadPath, s.stream(s.loadImages))
	mux.HandleFunc("DELETE /v1/images", s.answer(s.removeImage))
	mux.HandleFunc("POST /v1/images/gc", s.stream(s.collectImages))
}

// loadPath is the one request whose body is large.
const loadPath = "/v1/images/load"

// bounded keeps the bodies of requests small, but for archives.
func bounded(h http.Handler) http.Handler {
	small := http.MaxBytesHandler(h, maxBodyBytes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == loadPath {
			h.ServeHTTP(w, r)
			return
		}
		small.ServeHTTP(w, r)
	})
}

// imageOf is the image that a request is for.
func (s *Server) imageOf(r *http.Request) (string, *problem) {
	image := r.URL.Query().Get(api.QueryImage)
	switch {
	case s.imageStore == nil:
		return "", unknown("images")
	case image == "":
		return "", problemf(http.StatusBadRequest, "%s is missing: name an image", api.QueryImage)
	}
	return image, nil
}

func (s *Server) pullImage(w http.ResponseWriter, r *http.Request) *problem {
	image, problem := s.imageOf(r)
	if problem != nil {
		return problem
	}
	send := lines(w)
	send(api.ImageEvent{Step: api.ImageProgress})
	err := s.imageStore.Pull(r.Context(), image, func(p progress.Progress) {
		send(api.ImageEvent{Step: api.ImageProgress, Progress: p})
	})
	send(lastEvent([]string{image}, err))
	return nil
}

func (s *Server) loadImages(w http.ResponseWriter, r *http.Request) *problem {
	if s.imageStore == nil {
		return unknown("images")
	}
	send := lines(w)
	begun := false
	names, err := s.imageStore.Load(r.Context(), r.URL.Query().Get(api.QueryName), r.Body, func() {
		begun = true
		send(api.ImageEvent{Step: api.ImageProgress})
	})
	if err != nil && !begun {
		return problemf(http.StatusConflict, "%v", err)
	}
	send(lastEvent(names, err))
	return nil
}

func lastEvent(names []string, err error) api.ImageEvent {
	if err != nil {
		return api.ImageEvent{Step: api.ImageFailed, Error: err.Error()}
	}
	return api.ImageEvent{Step: api.ImageDone, Images: names}
}

// lines returns a function that writes one event per line. A client that does not read must not
// hold up the pull.
func lines(w http.ResponseWriter) func(api.ImageEvent) {
	control := http.NewResponseController(w)
	out := json.NewEncoder(w)
	return func(e api.ImageEvent) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_ = control.SetWriteDeadline(time.Now().Add(answerTimeout))
		if out.Encode(e) == nil {
			_ = control.Flush()
		}
	}
}

func (s *Server) removeImage(r *http.Request) (any, *problem) {
	image, problem := s.imageOf(r)
	if problem != nil {
		return nil, problem
	}
	if err := s.imageStore.Remove(r.Context(), image); err != nil {
		return nil, problemf(http.StatusConflict, "%v", err)
	}
	return struct{}{}, nil
}

// collectImages answers at once, and goes on when it is done: that may take long.
func (s *Server) collectImages(w http.ResponseWriter, r *http.Request) *problem {
	q := &query{r: r}
	dryRun, all := q.flag(api.QueryDryRun), q.flag(api.QueryAll)
	switch {
	case q.problem != nil:
		return q.problem
	case s.imageStore == nil:
		return unknown("images")
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	report, err := s.imageStore.Collect(r.Context(), dryRun, all)
	if err != nil {
		report = api.GCReport{Error: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(report)
	return nil
}
