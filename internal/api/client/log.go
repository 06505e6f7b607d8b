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

// LogRequest says which log is wanted, and what of it.
type LogRequest struct {
	Namespace  string // empty if the pod's name is enough
	Pod        string
	Container  string // empty: the default container of the pod
	Previous   bool   // the life before the present one
	ID         string // of one life, as the status of the container has it; only for a berth over its socket
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

// Log is a log that is being read. It is to be closed.
type Log struct {
	Container string   // whose it is
	Choice    []string // all containers of the pod, if the request named none

	answer *http.Response
	broken func(ctx context.Context, what string, err error) error // explains why it ended early
}

// Log asks for a log.
func (c *Client) Log(ctx context.Context, l LogRequest) (*Log, error) {
	r, err := c.get(ctx, l.path(), l.query()) //nolint:bodyclose // Log.Close does
	if err != nil {
		return nil, err
	}
	log := &Log{Container: r.Header.Get(api.HeaderContainer), answer: r, broken: c.broken}
	if all := r.Header.Get(api.HeaderContainers); all != "" {
		log.Choice = strings.Split(all, ",")
	}
	return log, nil
}

// CopyTo writes the text to w until its end, or until the context of its request ends.
func (l *Log) CopyTo(w io.Writer) error {
	out := &remembering{w: w}
	if _, err := io.Copy(out, l.answer.Body); err != nil {
		if out.err != nil {
			return out.err
		}
		return l.broken(l.answer.Request.Context(), "log", err)
	}
	// The trailer is there once the body is read.
	if text := l.answer.Trailer.Get(api.ErrorTrailer); text != "" {
		return errors.New("the log ended early: " + text)
	}
	return nil
}

// Close ends the request.
func (l *Log) Close() error { return l.answer.Body.Close() }

// remembering tells an error of writing from one of reading.
type remembering struct {
	w   io.Writer
	err error
}

func (r *remembering) Write(b []byte) (int, error) {
	n, err := r.w.Write(b)
	if err != nil {
		r.err = err
	}
	return n, err
}
