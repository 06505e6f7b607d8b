package nodeapi

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// journalFake knows the units kubelet.service and sshd.service, and prints its arguments.
func journalFake(_ context.Context, out io.Writer, args ...string) error {
	if args[0] == "--field" {
		_, err := fmt.Fprint(out, "sshd.service\nkubelet.service\n")
		return err
	}
	_, err := fmt.Fprintln(out, strings.Join(args, " "))
	return err
}

func TestLogQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Enabled.SystemLogQuery, c.Journal = true, journalFake })
	for name, text := range map[string]string{"cloud.log": "from cloud.log", "agent/agent.log": "from agent.log", "plain": "from plain"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(w.logs, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(w.logs, name), []byte(text), 0o600))
	}
	const usual = "--utc --no-pager --output=short-precise "
	for query, want := range map[string]string{
		"query=kubelet":                     usual + "--unit=kubelet\n",
		"query=kubelet&query=sshd":          usual + "--unit=kubelet --unit=sshd\n",
		"query=kubelet&tailLines=5&boot=-1": usual + "--pager-end --lines=5 --unit=kubelet --boot=-1\n",
		"query=kubelet&pattern=a%20b":       usual + "--unit=kubelet --grep=a b\n",
		"query=kubelet&sinceTime=2026-01-02T03:04:05%2B01:00&untilTime=2026-01-02T04:00:00Z": usual +
			"--since=2026-01-02 02:04:05 --until=2026-01-02 04:00:00 --unit=kubelet\n",
		"query=cloud":             "from cloud.log",
		"query=agent":             "from agent.log",
		"query=plain":             "from plain",
		"query=/agent/agent.log":  "from agent.log",
		`query=%5Ccloud.log`:      "from cloud.log",
		"query=nothing":           "\nlog not found for nothing\n",
		"query=cloud&tailLines=1": "\noptions present and query resolved to log files for [cloud]\ntry without specifying options\n",
	} {
		if code, body := w.local(t, http.MethodGet, "/logs/?"+query, ""); code != http.StatusOK || body != want {
			t.Errorf("%s: got %d %q, want %q", query, code, body, want)
		}
	}
	if code, body := w.local(t, http.MethodGet, "/logs/cloud.log", ""); code != http.StatusOK || body != "from cloud.log" {
		t.Errorf("a file: got %d %q", code, body)
	}
}

func TestMistakesOfLogQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Enabled.SystemLogQuery, c.Journal = true, journalFake })
	for path, want := range map[string]int{
		"/logs/?query=": http.StatusBadRequest,
		"/logs/?query=kubelet&sinceTime=yesterday":       http.StatusBadRequest,
		"/logs/?query=kubelet&tailLines=x":               http.StatusBadRequest,
		"/logs/?query=kubelet&boot=x":                    http.StatusBadRequest,
		"/logs/?tailLines=5":                             http.StatusNotAcceptable,
		"/logs/?query=kubelet&query=/cloud.log":          http.StatusNotAcceptable,
		"/logs/?query=/a&query=/b":                       http.StatusNotAcceptable,
		"/logs/?query=/a&tailLines=1":                    http.StatusNotAcceptable,
		"/logs/?query=kubelet&boot=1":                    http.StatusNotAcceptable,
		"/logs/?query=kubelet&tailLines=100001":          http.StatusNotAcceptable,
		"/logs/?query=kubelet&tailLines=-1":              http.StatusNotAcceptable,
		"/logs/?query=kubelet&pattern=(":                 http.StatusNotAcceptable,
		"/logs/?query=a%3Bb":                             http.StatusNotAcceptable,
		"/logs/?query=a&query=b&query=c&query=d&query=e": http.StatusNotAcceptable,
		"/logs/?query=" + strings.Repeat("a", 257):       http.StatusNotAcceptable,
		"/logs/?query=kubelet&sinceTime=2026-01-02T03:04:05Z&untilTime=2025-01-02T03:04:05Z": http.StatusNotAcceptable,
		"/logs/cloud.log?query=kubelet": http.StatusNotAcceptable,
		"/logs/?query=../secret":        http.StatusNotFound,
	} {
		if code, body := w.local(t, http.MethodGet, path, ""); code != want {
			t.Errorf("%s: got %d %q, want %d", path, code, body, want)
		}
	}
}

func TestWithoutAJournalALogIsAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.Enabled.SystemLogQuery = true
		c.Journal = func(context.Context, io.Writer, ...string) error { return errors.New("no journalctl") }
	})
	must(t, os.WriteFile(filepath.Join(w.logs, "kubelet.log"), []byte("here"), 0o600))
	if code, body := w.local(t, http.MethodGet, "/logs/?query=kubelet", ""); code != http.StatusOK || body != "here" {
		t.Errorf("got %d %q", code, body)
	}
}

func TestALogQueryIsCompressedForAClientThatAcceptsGzip(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Enabled.SystemLogQuery, c.Journal = true, journalFake })
	must(t, os.WriteFile(filepath.Join(w.logs, "plain"), []byte("from plain"), 0o600))
	get := func(path, accept string) *http.Response {
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.Header.Set("Accept-Encoding", accept)
		w.api.Local().ServeHTTP(answer, request)
		return answer.Result()
	}

	answer := get("/logs/?query=kubelet", "gzip")
	content, err := gzip.NewReader(answer.Body)
	must(t, err)
	text, err := io.ReadAll(content)
	must(t, err)
	if !strings.HasSuffix(string(text), "--unit=kubelet\n") || answer.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got %q as %s", text, answer.Header.Get("Content-Encoding"))
	}
	for path, accept := range map[string]string{"/logs/?query=kubelet": "identity", "/logs/plain": "gzip", "/logs/?query=/plain": "gzip"} {
		if got := get(path, accept).Header.Get("Content-Encoding"); got != "" {
			t.Errorf("%s for a client that accepts %s is encoded as %s", path, accept, got)
		}
	}
}
