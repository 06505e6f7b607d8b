package source

import (
	"fmt"
	"io"
	"log" //nolint:depguard // for a server of tests
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/lib/pod"
	"berth/internal/lib/secret"
)

// site is a server whose answer the test changes.
type site struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	body   string
	asked  chan http.Header
}

func newSite(t *testing.T, body string) *site {
	s := &site{status: http.StatusOK, body: body, asked: make(chan http.Header, 1000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked <- r.Header.Clone()
		w.WriteHeader(s.status)
		_, _ = w.Write([]byte(s.body))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) answer(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

// startURL asks every few milliseconds: servers can't live in fake time.
func startURL(t *testing.T, c HTTPConfig) (<-chan pod.Snapshot, func()) {
	t.Helper()
	c.Node, c.Interval, c.Log = "n", 2*time.Millisecond, quietLog()
	h, err := NewHTTP(c)
	must(t, err)
	return start(h.Run)
}

// wantQuiet waits for some more requests, and fails if a snapshot came of them.
func wantQuiet(t *testing.T, s *site, out <-chan pod.Snapshot) {
	t.Helper()
	for range 5 {
		select {
		case <-s.asked:
		case snapshot := <-out:
			t.Fatalf("unexpected %q", formatSnapshot(snapshot))
		}
	}
}

func TestAURLIsAsked(t *testing.T) {
	t.Parallel()
	s := newSite(t, web("a", "1"))
	out, stop := startURL(t, HTTPConfig{URL: secret.NewURL(s.URL + "/pods?token=x"), Header: secret.NewHeader(http.Header{"x-key": {"1", "2"}})})
	defer stop()
	snapshot := wantNext(t, out, "SET a-n=1")
	if snapshot.Source != pod.SourceHTTP || pod.Source(snapshot.Pods[0]) != pod.SourceHTTP {
		t.Errorf("the source is %s", snapshot.Source)
	}
	if have := (<-s.asked).Values("X-Key"); len(have) != 2 {
		t.Errorf("headers %q", have)
	}
	wantQuiet(t, s, out)

	s.answer(http.StatusOK, `{"apiVersion":"v1","kind":"PodList","items":[`+
		`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"localhost/2"}]}},`+
		`{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"localhost/2"}]}}]}`)
	wantNext(t, out, "SET a-n=2 b-n=2")

	// One bad pod of a list keeps its last good version.
	s.answer(http.StatusOK, `{"apiVersion":"v1","kind":"PodList","items":[`+
		`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}},`+
		`{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"localhost/3"}]}}]}`)
	wantNext(t, out, "SET b-n=3 a-n=2 !pods:1 default/a-n kept=true")

	s.answer(http.StatusOK, `{"apiVersion":"v1","kind":"PodList","items":[]}`)
	wantNext(t, out, "SET ")
}

func TestAFailingURLRemovesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		says   string
	}{
		"error":     {http.StatusInternalServerError, "oops", "500 Internal Server Error"},
		"not found": {http.StatusNotFound, web("a", "1"), "404 Not Found"},
		"no answer": {http.StatusNoContent, "", "204 No Content"},
		"empty":     {http.StatusOK, "\n", "is empty"},
		"garbage":   {http.StatusOK, "<html>hello</html>", "not a Kubernetes object"},
		"too large": {http.StatusOK, strings.Repeat("#", MaxManifest+1), "more than 10 MB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, web("a", "1"))
			out, stop := startURL(t, HTTPConfig{URL: secret.NewURL(s.URL)})
			defer stop()
			wantNext(t, out, "SET a-n=1")

			s.answer(c.status, c.body)
			snapshot := next(t, out)
			if len(snapshot.Pods) != 1 || len(snapshot.Refused) != 1 || !snapshot.Refused[0].Kept {
				t.Fatalf("have %q", formatSnapshot(snapshot))
			}
			if message := snapshot.Refused[0].Message; !strings.Contains(message, c.says) {
				t.Errorf("it says %q", message)
			}
			wantQuiet(t, s, out)
			s.answer(http.StatusOK, web("a", "1"))
			wantNext(t, out, "SET a-n=1")
		})
	}
}

func TestAnUnreachableURLIsSaidOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, web("a", "1"))
	state := filepath.Join(t.TempDir(), "http.json")
	out, stop := startURL(t, HTTPConfig{URL: secret.NewURL(s.URL), State: state})
	wantNext(t, out, "SET a-n=1")
	s.Close()
	snapshot := next(t, out)
	if len(snapshot.Pods) != 1 || len(snapshot.Refused) != 1 || !strings.Contains(snapshot.Refused[0].Message, "refused") {
		t.Fatalf("have %q", formatSnapshot(snapshot))
	}
	stop()

	// After a restart what it said last is known, and it is not ready yet.
	out, stop = startURL(t, HTTPConfig{URL: secret.NewURL(s.URL), State: state})
	defer stop()
	wantNext(t, out, "RESTORE a-n=1")
	snapshot = next(t, out)
	if snapshot.Op != pod.Restore || !snapshot.Unreadable || len(snapshot.Pods) != 1 || !snapshot.Refused[0].Kept {
		t.Errorf("have %q", formatSnapshot(snapshot))
	}
}

func TestGarbageAtStartIsNoSnapshot(t *testing.T) {
	t.Parallel()
	s := newSite(t, "garbage")
	out, stop := startURL(t, HTTPConfig{URL: secret.NewURL(s.URL)})
	defer stop()
	snapshot := next(t, out)
	if snapshot.Op != pod.Restore || !snapshot.Unreadable || len(snapshot.Refused) != 1 || snapshot.Refused[0].Kept {
		t.Errorf("have %q", formatSnapshot(snapshot))
	}
	s.answer(http.StatusOK, web("a", "1"))
	wantNext(t, out, "SET a-n=1")
}

func TestHeadersStayWithTheirHost(t *testing.T) {
	t.Parallel()
	other := newSite(t, web("a", "1"))
	moved := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer moved.Close()

	out, stop := startURL(t, HTTPConfig{URL: secret.NewURL(moved.URL), Header: secret.NewHeader(http.Header{"X-Key": {"secret"}})})
	snapshot := next(t, out)
	stop()
	if len(snapshot.Pods) > 0 || !strings.Contains(snapshot.Refused[0].Message, "redirects to another host") {
		t.Errorf("have %q", formatSnapshot(snapshot))
	}
	if len(other.asked) > 0 {
		t.Error("the other host was asked")
	}

	// Without headers there is nothing to keep.
	out, stop = startURL(t, HTTPConfig{URL: secret.NewURL(moved.URL)})
	defer stop()
	wantNext(t, out, "SET a-n=1")
}

func TestStoppingWhileAServerHangs(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer s.Close()
	defer close(release)
	_, stop := startURL(t, HTTPConfig{URL: secret.NewURL(s.URL)})
	<-asked
	stop()
}

func TestURLsAreChecked(t *testing.T) {
	for _, u := range []string{"", "pods", "ftp://host/", "http://", "http://a b/", "unix:///x"} {
		if _, err := NewHTTP(HTTPConfig{URL: secret.NewURL(u), Node: "n", Interval: time.Second, Log: quietLog()}); err == nil {
			t.Errorf("%q was taken", u)
		}
	}
	if _, err := NewHTTP(HTTPConfig{URL: secret.NewURL("http://user:secret@/"), Node: "n", Interval: time.Second, Log: quietLog()}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("have %v", err)
	}
}

// Errors of the HTTP client repeat the URL, and what servers say may repeat it, too.
func TestTheSecretsOfAURLAreNotShown(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"broken off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a bad redirect": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://%zz/?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
		},
		"a redirect to nowhere": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "gopher://geheim-pass@127.0.0.1/?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
		},
		"nonsense": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(answer))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			t.Cleanup(server.Close)
			address := strings.TrimPrefix(server.URL, "http://")
			out, stop := startURL(t, HTTPConfig{
				URL:    secret.NewURL("http://geheim-user:geheim-pass@" + address + "/pods?token=geheim-token"),
				Header: secret.NewHeader(http.Header{"X-Key": {"geheim-key"}}),
			})
			defer stop()
			snapshot := <-out
			if len(snapshot.Refused) != 1 || snapshot.Refused[0].Origin != server.URL+"/pods" {
				t.Fatalf("got %+v", snapshot)
			}
			if text := fmt.Sprintf("%+v", snapshot); strings.Contains(text, "geheim") {
				t.Errorf("it tells a secret: %s", text)
			}
		})
	}
}

// A redirect to another host does not pass on the query, which may hold credentials.
func TestARedirectDoesNotShowTheQuery(t *testing.T) {
	t.Parallel()
	s := newSite(t, web("a", "1"))
	moved := httptest.NewServer(http.RedirectHandler(s.URL, http.StatusFound))
	t.Cleanup(moved.Close)
	out, stop := startURL(t, HTTPConfig{URL: secret.NewURL(moved.URL + "/pods?token=geheim")})
	defer stop()
	wantNext(t, out, "SET a-n=1")
	if have := (<-s.asked).Get("Referer"); have != "" {
		t.Errorf("the other host got %q", have)
	}
}
