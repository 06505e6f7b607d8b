package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/internal/api"
)

// LogRequest selects a log, and a part of it.
type LogRequest struct {
	Namespace  string // empty: any namespace, if the name of the pod is unique
	Pod        string
	Container  string // empty: the default container of the pod
	Previous   bool   // the instance before the present one
	ID         string // ID of an instance, as in the status of the container; only for a berth over its socket
	Follow     bool
	Timestamps bool
	Tail       int64     // the last lines; below 0 all of them
	Since      time.Time // zero for all
	LimitBytes int64     // 0 is no limit
}

func (l LogRequest) path() string {
	name := url.PathEscape(l.Pod)
	if l.Namespace == "" {
		return "/v1/pods/" + name + "/log"
	}
	return "/v1/namespaces/" + url.PathEscape(l.Namespace) + "/pods/" + name + "/log"
}

func (l LogRequest) query() url.Values {
	q := url.Values{}
	for key, set := range map[string]bool{
		api.QueryPrevious: l.Previous, api.QueryFollow: l.Follow, api.QueryTimestamps: l.Timestamps,
	} {
		if set {
			q.Set(key, "true")
		}
	}
	if l.Container != "" {
		q.Set(api.QueryContainer, l.Container)
	}
	if l.ID != "" {
		q.Set(api.QueryID, l.ID)
	}
	if l.Tail >= 0 {
		q.Set(api.QueryTail, strconv.FormatInt(l.Tail, 10))
	}
	if !l.Since.IsZero() {
		q.Set(api.QuerySince, l.Since.Format(time.RFC3339Nano))
	}
	if l.LimitBytes > 0 {
		q.Set(api.QueryLimitBytes, strconv.FormatInt(l.LimitBytes, 10))
	}
	return q
}

// Log is a log that is being read. It has to be closed.
type Log struct {
	Container string   // name of the container
	Choice    []string // all containers of the pod, if the request named none

	answer     *http.Response
	explainEnd func(ctx context.Context, what string, err error) error // says why the log has ended early
}

// Log requests a log.
func (c *Client) Log(ctx context.Context, l LogRequest) (*Log, error) {
	r, err := c.get(ctx, l.path(), l.query()) //nolint:bodyclose // Log.Close does
	if err != nil {
		return nil, err
	}
	log := &Log{Container: r.Header.Get(api.HeaderContainer), answer: r, explainEnd: c.explainEnd}
	if all := r.Header.Get(api.HeaderContainers); all != "" {
		log.Choice = strings.Split(all, ",")
	}
	return log, nil
}

// CopyTo writes the text to w until its end, or until the context of its request ends.
func (l *Log) CopyTo(w io.Writer) error {
	out := &errorRecorder{w: w}
	if _, err := io.Copy(out, l.answer.Body); err != nil {
		if out.err != nil {
			return out.err
		}
		return l.explainEnd(l.answer.Request.Context(), "log", err)
	}
	// The trailer is set once the body is read.
	if text := l.answer.Trailer.Get(api.ErrorTrailer); text != "" {
		return errors.New("the log ended early: " + text)
	}
	return nil
}

// Close ends the request.
func (l *Log) Close() error { return l.answer.Body.Close() }

// errorRecorder records the error of a write, to distinguish it from an error of reading.
type errorRecorder struct {
	w   io.Writer
	err error
}

func (r *errorRecorder) Write(b []byte) (int, error) {
	n, err := r.w.Write(b)
	if err != nil {
		r.err = err
	}
	return n, err
}
