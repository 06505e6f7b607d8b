package localapi

import (
	"encoding/json"
	"net/http"
	"time"

	"berth/internal/api"
)

// serveDrain stops the pods of this node, and answers with its progress. It ends when the client
// goes: pods whose stop was requested do stop, and the node stays closed.
func (s *Server) serveDrain(w http.ResponseWriter, r *http.Request) *problem {
	q := &query{r: r}
	request := api.DrainRequest{Timeout: q.duration(api.QueryTimeout), KeepStatic: q.flag(api.QueryKeepStatic)}
	if grace := q.number(api.QueryGrace, -1); grace >= 0 {
		request.Grace = &grace
	}
	switch {
	case q.problem != nil:
		return q.problem
	case s.drains == nil:
		return noDrains()
	}
	control := http.NewResponseController(w)
	out := json.NewEncoder(w)
	begun := false
	send := func(e api.DrainEvent) {
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			begun = true
		}
		// A reader that does not read must not hold the pods up.
		_ = control.SetWriteDeadline(time.Now().Add(answerTimeout))
		if out.Encode(e) == nil {
			_ = control.Flush()
		}
	}
	left, err := s.drains.Drain(r.Context(), request, send)
	switch {
	case err != nil && !begun:
		return problemf(http.StatusConflict, "%v", err)
	case err != nil:
		send(api.DrainEvent{Step: api.DrainFailed, Error: err.Error()})
	default:
		send(api.DrainEvent{Step: api.DrainDone, Left: left})
	}
	return nil
}

// undoDrain lets pods run again.
func (s *Server) undoDrain(r *http.Request) (any, *problem) {
	if s.drains == nil {
		return nil, noDrains()
	}
	if err := s.drains.Undo(r.Context()); err != nil {
		return nil, problemf(http.StatusConflict, "%v", err)
	}
	return struct{}{}, nil
}

func noDrains() *problem { return problemf(http.StatusNotImplemented, "this node can't be drained") }
