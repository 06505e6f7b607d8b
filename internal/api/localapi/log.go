package localapi

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"berth/internal/api"
	"berth/internal/api/find"
	"berth/internal/lib/pod"
	"berth/internal/runtime/crilog"
)

func (s *Server) serveLog(w http.ResponseWriter, r *http.Request, reader *crilog.Reader) *problem {
	q := &query{r: r}
	o := crilog.Options{
		Tail:       q.number(api.QueryTail, -1),
		Since:      q.time(api.QuerySince, time.Now()),
		Follow:     q.flag(api.QueryFollow),
		Timestamps: q.flag(api.QueryTimestamps),
		LimitBytes: q.number(api.QueryLimitBytes, 0),
	}
	previous := q.flag(api.QueryPrevious)
	if q.problem != nil {
		return q.problem
	}
	p, problem := s.named(r)
	if problem != nil {
		return problem
	}
	container, missing := find.Container(p, q.text(api.QueryContainer))
	if missing != nil {
		return notFound(missing)
	}
	id, problem := pickLife(p, container, q.text(api.QueryID), previous)
	if problem != nil {
		return problem
	}
	path, done, err := s.logs.LogPath(r.Context(), p.UID, id)
	if err == nil {
		err = crilog.Check(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return problemf(http.StatusNotFound, "the log of container %q of pod %s is gone: %v", container, pod.Ref(p), err)
	}
	if err != nil {
		return problemf(http.StatusInternalServerError, "find the log of container %q of pod %s: %v", container, pod.Ref(p), err)
	}
	o.Done = done

	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Trailer", api.ErrorTrailer)
	w.Header().Set(api.HeaderContainer, container)
	if q.text(api.QueryContainer) == "" {
		w.Header().Set(api.HeaderContainers, strings.Join(find.Containers(p), ","))
	}
	out := flusher{w: w, flush: http.NewResponseController(w).Flush}
	// The client of a log without new lines has to see that the stream is open.
	if err := out.flush(); err != nil {
		return nil
	}
	err = reader.Copy(r.Context(), out, path, o)
	switch {
	case errors.Is(err, context.Canceled):
		// The client is gone, and does not see the trailer, or berth stops.
		w.Header().Set(api.ErrorTrailer, "berth is stopping")
	case err != nil:
		w.Header().Set(api.ErrorTrailer, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// flusher sends on what is written to it at once.
type flusher struct {
	w     http.ResponseWriter
	flush func() error
}

func (f flusher) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err != nil {
		return n, err
	}
	return n, f.flush()
}
