package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/api"
	"berth/internal/lib/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// serve answers on the socket of a root directory, and returns a client of it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	root := rootDir(t)
	l, err := net.Listen("unix", api.SocketPath(root))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return newClient(t, root)
}

func rootDir(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "berth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	return root
}

func newClient(t *testing.T, root string) *Client {
	t.Helper()
	c, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("got error %v, want one with %q", err, p)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	if _, err := New(""); err == nil {
		t.Error("got a client of no root directory")
	}
	t.Run("no socket", func(t *testing.T) {
		root := rootDir(t)
		_, err := newClient(t, root).Version(t.Context())
		wantError(t, err, "berth is not running on "+root, "no socket at "+root+"/berth.sock", "'berth run'", "--root-dir")
	})
	t.Run("nobody answers", func(t *testing.T) {
		root := rootDir(t)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: api.SocketPath(root), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		_ = l.Close()
		_, err = newClient(t, root).Version(t.Context())
		wantError(t, err, "berth is not running on "+root, "no answer at", "'berth run'")
	})
	t.Run("not allowed", func(t *testing.T) {
		refused := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", os.ErrPermission)}
		err := newClient(t, "/r").unreachable(t.Context(), refused)
		wantError(t, err, "you may not talk to /r/berth.sock: use root, or join group berth")
	})
	t.Run("no answer in time", func(t *testing.T) {
		err := newClient(t, "/r").unreachable(t.Context(), fmt.Errorf("wait: %w", os.ErrDeadlineExceeded))
		wantError(t, err, "berth on /r does not answer")
	})
	t.Run("the context ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := newClient(t, rootDir(t)).Version(ctx)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a refusal is reported in the server's words", func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "pod \"x\" not found", http.StatusNotFound)
		})
		_, err := c.Pods(t.Context(), Filter{Name: "x"})
		wantError(t, err, `pod "x" not found`)
		if strings.HasSuffix(err.Error(), "\n") {
			t.Error("the error ends with a newline")
		}
	})
	t.Run("a refusal without words", func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		_, err := c.Version(t.Context())
		wantError(t, err, "answered 500")
	})
	t.Run("an answer that is none", func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
		_, err := c.Version(t.Context())
		wantError(t, err, "read the answer of")
	})
}

func TestASocketElsewhereIsFound(t *testing.T) {
	// given an agent that could not make its socket in the root directory
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"version":"1"}`) })
	c.spare, c.socket = c.socket, filepath.Join(rootDir(t), "berth.sock")

	// then it is found, also if a socket from before is in the way
	for _, leftover := range []bool{false, true} {
		if leftover {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.socket, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		}
		c.Close()
		if _, err := c.Version(t.Context()); err != nil {
			t.Errorf("with a leftover %v: %v", leftover, err)
		}
	}
}

func TestPods(t *testing.T) {
	var asked string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_ = json.NewEncoder(w).Encode(api.List{Pods: v1.PodList{Items: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}})
	})
	list, err := c.Pods(t.Context(), Filter{Namespace: "x", Name: "a"})
	if err != nil || len(list.Pods.Items) != 1 || list.Pods.Items[0].Name != "a" {
		t.Errorf("got %+v (%v)", list, err)
	}
	if want := "/v1/pods?name=a&namespace=x"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
}

func TestWatchEnds(t *testing.T) {
	events := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"type":"SYNCED"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Get("name") == "stays" {
			<-r.Context().Done()
		}
	}
	t.Run("when berth stops", func(t *testing.T) {
		received := 0
		err := serve(t, events).Watch(t.Context(), Filter{}, func(api.Event) error { received++; return nil })
		wantError(t, err, "stopped")
		if received != 1 {
			t.Errorf("reported %d events, want 1", received)
		}
	})
	t.Run("when its context does", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := serve(t, events).Watch(ctx, Filter{Name: "stays"}, func(api.Event) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("when its teller fails", func(t *testing.T) {
		err := serve(t, events).Watch(t.Context(), Filter{Name: "stays"}, func(api.Event) error { return io.ErrClosedPipe })
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	})
}

func TestLogRequest(t *testing.T) {
	full := LogRequest{
		Namespace: "a/b", Pod: "c/d", Container: "e", ID: "f", Previous: true, Follow: true, Timestamps: true,
		Tail: 0, Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), LimitBytes: 9,
	}
	if got, want := full.path(), "/v1/namespaces/a%2Fb/pods/c%2Fd/log"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := url.Values{
		"container": {"e"}, "id": {"f"}, "previous": {"true"}, "follow": {"true"}, "timestamps": {"true"},
		"tail": {"0"}, "since": {"2026-01-02T03:04:05.000000006Z"}, "limitBytes": {"9"},
	}
	if got := full.query().Encode(); got != want.Encode() {
		t.Errorf("got %s, want %s", got, want.Encode())
	}
	little := LogRequest{Pod: "p", Tail: -1}
	if got := little.path() + "?" + little.query().Encode(); got != "/v1/pods/p/log?" {
		t.Errorf("got %s", got)
	}
}

func TestLog(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", api.ErrorTrailer)
		w.Header().Set(api.HeaderContainer, "app")
		w.Header().Set(api.HeaderContainers, "app,side")
		_, _ = io.WriteString(w, "one\ntwo\n")
		if strings.Contains(r.URL.Path, "fails") {
			w.Header().Set(api.ErrorTrailer, "disk on fire")
		}
	})
	read := func(name string, w io.Writer) error {
		log, err := c.Log(t.Context(), LogRequest{Pod: name})
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }()
		if log.Container != "app" || strings.Join(log.Choice, " ") != "app side" {
			t.Errorf("got container %q of %q", log.Container, log.Choice)
		}
		return log.CopyTo(w)
	}
	var out strings.Builder
	if err := read("good", &out); err != nil || out.String() != "one\ntwo\n" {
		t.Errorf("got %q (%v)", out.String(), err)
	}
	wantError(t, read("fails", io.Discard), "disk on fire")

	r, w := io.Pipe()
	_ = r.Close()
	if err := read("good", w); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want the error of the writer", err)
	}
}
