package localapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// fakeDebugs records the ephemeral containers that were added.
type fakeDebugs struct {
	mu     sync.Mutex
	added  []string
	refuse error
}

func (f *fakeDebugs) AddContainer(_ context.Context, p *v1.Pod, c v1.EphemeralContainer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added = append(f.added, string(p.UID)+" "+c.Name)
	return f.refuse
}

func (s *station) post(url, body string) (int, string) {
	s.t.Helper()
	r, err := s.client.Post("http://berth"+url, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = r.Body.Close() })
	return r.StatusCode, text(s.t, r)
}

func TestDebug(t *testing.T) {
	debugs := &fakeDebugs{}
	s := startWith(t, func(c *Config) { c.EphemeralContainers = debugs })
	ofAPI := newPod("y", "cloud", "app")
	ofAPI.Annotations[pod.AnnotationSource] = pod.SourceAPI
	leaves := newPod("y", "leaves", "app")
	leaves.DeletionTimestamp = &metav1.Time{}
	over := newPod("y", "over", "app")
	over.Status.Phase = v1.PodFailed
	s.pods.set(nil, newPod("x", "web", "app"), ofAPI, leaves, over)

	const good = `{"name": "debugger", "image": "localhost/tools:1"}`
	if code, body := s.post("/v1/pods/web/ephemeralcontainers", good); code != 200 || !strings.Contains(body, `"debugger"`) {
		t.Errorf("got %d %s", code, body)
	}
	if len(debugs.added) != 1 || debugs.added[0] != "x-web debugger" {
		t.Errorf("added %q", debugs.added)
	}
	debugs.refuse = errors.New("it has a container of that name")
	for _, c := range []struct {
		path, body string
		code       int
		want       string
	}{
		{"namespaces/x/pods/web", good, 409, "it has a container of that name"},
		{"pods/nope", good, 404, `pod "nope" not found`},
		{"pods/cloud-node-1", good, 409, "use 'kubectl debug -n y cloud-node-1'"},
		{"pods/leaves", good, 409, "has ended, or is about to"},
		{"pods/over", good, 409, "has ended, or is about to"},
		{"pods/web", `{"nam": "x"}`, 400, `unknown field "nam"`},
		{"pods/web", strings.Repeat(" ", 70<<10), 400, "too large"},
	} {
		if code, body := s.post("/v1/"+c.path+"/ephemeralcontainers", c.body); code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: got %d %s, want %d %s", c.path, code, body, c.code, c.want)
		}
	}
	s = start(t, 0)
	if code, body := s.post("/v1/pods/web/ephemeralcontainers", good); code != 501 {
		t.Errorf("got %d %s", code, body)
	}
}

func TestTheNodeAPI(t *testing.T) {
	held := make(chan struct{})
	s := startWith(t, func(c *Config) {
		c.Streams = 1
		c.Node = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				w.WriteHeader(http.StatusSwitchingProtocols)
				_ = http.NewResponseController(w).Flush()
				<-held
				return
			}
			_, _ = w.Write([]byte("node: " + r.Method + " " + r.URL.Path + "\n"))
		})
	})
	if code, body := s.get("/configz"); code != 200 || body != "node: GET /configz\n" {
		t.Errorf("got %d %s", code, body)
	}
	if code, body := s.get("/v1/version"); code != 200 || !strings.Contains(body, "1.2.3") {
		t.Errorf("got %d %s", code, body)
	}
	upgrade := func() int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://berth/exec/x/web/app", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "SPDY/3.1")
		r, err := s.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Body.Close() })
		return r.StatusCode
	}
	if code := upgrade(); code != http.StatusSwitchingProtocols {
		t.Errorf("got %d", code)
	}
	if code := upgrade(); code != http.StatusServiceUnavailable {
		t.Errorf("got %d, want that one stream is enough", code)
	}
	close(held)
	if code, _ := start(t, 0).get("/configz"); code != http.StatusNotFound {
		t.Errorf("got %d from a server without a node", code)
	}
}
