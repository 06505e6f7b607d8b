package nodeapi

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/find"
	"berth/internal/lib/pod"
	"berth/internal/runtime/crilog"
)

// logReader writes logs.
type logReader interface {
	Copy(ctx context.Context, w io.Writer, path string, o crilog.Options) error
	Close() error
}

func newLogReader(log *slog.Logger) logReader { return crilog.NewReader(log) }

// serveContainerLogs answers with the log of a container, and follows it if the client asks for it.
func (a *API) serveContainerLogs(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	options, err := logOptions(query, time.Now())
	if err != nil {
		return err
	}
	previous, err := boolParam(query, "previous")
	if err != nil {
		return err
	}
	p, err := a.findPod(r)
	if err != nil {
		return err
	}
	name := r.PathValue("container")
	if pod.ContainerSpec(p, name) == nil {
		return problemf(http.StatusNotFound, "container %q not found in pod %q", name, p.Name)
	}
	id, err := logOf(p, name, previous)
	if err != nil {
		return err
	}
	path, done, err := a.Logs.LogPath(r.Context(), p.UID, id)
	if err == nil {
		err = crilog.Check(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return problemf(http.StatusNotFound, "the log of container %q in pod %q is gone", name, p.Name)
	}
	if err != nil {
		return err
	}
	options.Done = done

	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// The client of a log without new lines has to see that the stream is open.
	if _, err := w.Write(nil); err != nil {
		return nil //nolint:nilerr // the client is gone
	}
	if err := a.reader.Copy(r.Context(), w, path, options); err != nil && r.Context().Err() == nil {
		// A part was sent already, so the status code can't be changed any more.
		a.Log.Debug("a log could not be sent to its end", "pod", p.Name, "container", name, "err", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// logOptions parses the query of a request for a log.
func logOptions(q url.Values, now time.Time) (crilog.Options, error) {
	o := crilog.Options{Tail: -1}
	var err error
	if o.Follow, err = boolParam(q, "follow"); err != nil {
		return o, err
	}
	if o.Timestamps, err = boolParam(q, "timestamps"); err != nil {
		return o, err
	}
	tail := "tailLines"
	if q.Get("tail") != "" { // the name of tailLines in older versions of Kubernetes
		tail = "tail"
	}
	if q.Get(tail) != "all" {
		if o.Tail, err = numberParam(q, tail, 0, -1); err != nil {
			return o, err
		}
	}
	if o.LimitBytes, err = numberParam(q, "limitBytes", 1, 0); err != nil {
		return o, err
	}
	seconds, err := numberParam(q, "sinceSeconds", 1, 0)
	if err != nil {
		return o, err
	}
	since := q.Get("sinceTime")
	switch {
	case seconds > 0 && since != "":
		return o, problemf(http.StatusUnprocessableEntity, "at most one of sinceTime or sinceSeconds may be given")
	case seconds > 0:
		o.Since = now.Add(-time.Duration(min(seconds, maxSeconds)) * time.Second)
	case since != "":
		if o.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return o, problemf(http.StatusBadRequest, "sinceTime is %q, and has to be a time such as 2026-01-02T03:04:05Z", since)
		}
	}
	if stream := q.Get("stream"); stream != "" && stream != v1.LogStreamAll {
		return o, problemf(http.StatusBadRequest, "stream is %q: this node only has both streams together", stream)
	}
	return o, nil
}

// maxSeconds is the largest sinceSeconds: a century.
const maxSeconds = int64(100 * 365 * 24 * time.Hour / time.Second)

func boolParam(q url.Values, key string) (bool, error) {
	text := q.Get(key)
	if text == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, problemf(http.StatusBadRequest, "%s is %q, and has to be true or false", key, text)
	}
	return b, nil
}

// numberParam parses a number, which must not be below minimum. It returns fallback if the query
// does not have it.
func numberParam(q url.Values, key string, minimum, fallback int64) (int64, error) {
	text := q.Get(key)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, problemf(http.StatusBadRequest, "%s is %q, and has to be a number", key, text)
	}
	if n < minimum {
		return 0, problemf(http.StatusUnprocessableEntity, "%s is %d, and has to be %d or more", key, n, minimum)
	}
	return n, nil
}

// logOf returns the ID, in the runtime, of the container instance whose log is requested: the
// present or last instance, or with previous the instance before it.
func logOf(p *v1.Pod, name string, previous bool) (string, error) {
	s := find.Status(p, name)
	var id string
	switch last := s.LastTerminationState.Terminated; {
	case previous && (last == nil || last.ContainerID == ""):
		return "", problemf(http.StatusBadRequest, "previous terminated container %q in pod %q not found", name, p.Name)
	case previous:
		id = last.ContainerID
	case s.State.Running != nil:
		id = s.ContainerID
	case s.State.Terminated != nil:
		id = s.State.Terminated.ContainerID
	case last != nil:
		id = last.ContainerID // the container waits to be started again
	default:
		reason := "no logs yet"
		if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
			reason = s.State.Waiting.Reason
		}
		return "", problemf(http.StatusBadRequest, "container %q in pod %q is waiting to start: %s", name, p.Name, reason)
	}
	if id == "" {
		return "", problemf(http.StatusBadRequest, "container %q in pod %q is terminated", name, p.Name)
	}
	// In a status, the ID has the name of the runtime as prefix.
	if _, bare, ok := strings.Cut(id, "://"); ok {
		id = bare
	}
	return id, nil
}
