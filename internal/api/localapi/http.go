package localapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// answer serves a value as JSON.
func (s *Server) answer(get func(*http.Request) (any, *problem)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The deadline goes with the request: net/http resets it for the next.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
		value, problem := get(r)
		if problem != nil {
			fail(w, problem)
			return
		}
		body, err := json.Marshal(value)
		if err != nil {
			fail(w, problemf(http.StatusInternalServerError, "encode the answer: %v", err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n'))
	}
}

// stream wraps the handler of a stream, and refuses it if too many are open. A stream has no
// deadline: a user who pages through a log stops reading for any time.
func (s *Server) stream(serve func(http.ResponseWriter, *http.Request) *problem) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.streams <- struct{}{}:
			defer func() { <-s.streams }()
		default:
			fail(w, problemf(http.StatusServiceUnavailable, "%d logs and watches are open, which is as many as may be: end one and try again", cap(s.streams)))
			return
		}
		if problem := serve(w, r); problem != nil {
			fail(w, problem)
		}
	}
}

func fail(w http.ResponseWriter, p *problem) { http.Error(w, p.text, p.code) }

// query reads the query of a request, and keeps the first thing wrong with it.
type query struct {
	r       *http.Request
	problem *problem
}

func (q *query) wrong(key, want string) {
	if q.problem == nil {
		q.problem = problemf(http.StatusBadRequest, "%s is %q, and has to be %s", key, q.text(key), want)
	}
}

func (q *query) text(key string) string { return q.r.FormValue(key) }

func (q *query) flag(key string) bool {
	if q.text(key) == "" {
		return false
	}
	b, err := strconv.ParseBool(q.text(key))
	if err != nil {
		q.wrong(key, "true or false")
	}
	return b
}

// number is at least 0, or otherwise if the query does not have it.
func (q *query) number(key string, otherwise int64) int64 {
	if q.text(key) == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(q.text(key), 10, 64)
	if err != nil || n < 0 {
		q.wrong(key, "a number that is not below 0")
	}
	return n
}

// duration is at least 0, which it is if the query does not have it.
func (q *query) duration(key string) time.Duration {
	if q.text(key) == "" {
		return 0
	}
	d, err := time.ParseDuration(q.text(key))
	if err != nil || d < 0 {
		q.wrong(key, "a time such as 30s or 5m")
	}
	return d
}

// time is a point in time, or an age before now.
func (q *query) time(key string, now time.Time) time.Time {
	if q.text(key) == "" {
		return time.Time{}
	}
	if age, err := time.ParseDuration(q.text(key)); err == nil && age >= 0 {
		return now.Add(-age)
	}
	t, err := time.Parse(time.RFC3339Nano, q.text(key))
	if err != nil {
		q.wrong(key, "a time such as 2026-01-02T03:04:05Z, or an age such as 5m")
	}
	return t
}
