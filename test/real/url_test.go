//go:build real

package real

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/api"
)

func TestPodsFromURL(t *testing.T) {
	t.Parallel()
	// given a server that has a pod for those who know the word
	n := newNode(t)
	n.configure("httpCheckFrequency: 1s\n")
	var page page
	l := n.listen(t)
	server := http.Server{Handler: &page, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	url := "http://" + l.Addr().String() + "/pods"

	page.set(http.StatusOK, newPod("one", "sleep"))
	n.start("--manifest-url", strings.Replace(url, "http://", "http://geheim-user:geheim-word@", 1)+"?token=geheim-token",
		"--manifest-url-header", "X-Word: please", "--manifest-url-header", "Authorization: Bearer geheim-bearer")
	n.waitRunning("one")

	// when it has a list, then all of its pods run
	one, two := newPod("one", "sleep"), newPod("two", "sleep")
	page.set(http.StatusOK, &v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{*one, *two}})
	before := n.lives(n.waitRunning("one", "two"))

	// when it fails or talks nonsense, then they run on, and it is told
	for status, content := range map[int]any{http.StatusInternalServerError: "broken", http.StatusOK: "<html>"} {
		page.set(status, content)
		n.wait("to be told of the bad answer", 10*time.Second, func() string {
			return boolText(strings.Contains(n.berth("get", "pods").stderr, url))
		})
		n.mustLiveOn(before)
	}

	// when it is well again, and has one pod less, then that one goes
	delete(before, "one/app")
	page.set(http.StatusOK, two)
	n.waitGone("one")
	n.waitSettled("two")
	n.mustLiveOn(before)

	// and nobody was told the secrets: no file, no page, no log, nor those who look at the pod
	told := map[string]string{
		"get": n.must("get", "pods", "-o", "yaml"), "describe": n.must("describe", "pod", "two"), "events": n.must("get", "events", "-o", "yaml"),
	}
	for _, path := range []string{"/configz", "/flagz", "/statusz", "/debug/pprof/cmdline"} {
		told[path] = n.ask(path)
	}
	err := filepath.WalkDir(n.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(path, "/containerd/") {
			return nil //nolint:nilerr // what goes meanwhile tells nothing
		}
		content, err := os.ReadFile(path)
		told[path] = string(content)
		return err
	})
	if err != nil || told[n.logFile()] == "" {
		t.Errorf("the files of the agent can't be read: %v", err)
	}
	for where, text := range told {
		if strings.Contains(text, "geheim") {
			t.Errorf("%s tells a secret", where)
		}
	}
}

// ask returns what the agent answers on its socket.
func (n *node) ask(path string) string {
	n.t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", api.SocketPath(n.root))
	}
	local := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://berth"+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	answer, err := local.Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		n.t.Errorf("%s: %s, %v", path, answer.Status, err)
	}
	return string(body)
}

// page is what a server answers. It wants to hear the word.
type page struct {
	mu     sync.Mutex
	status int
	body   []byte
}

func (p *page) set(status int, content any) {
	body, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.body = status, body
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Header.Get("X-Word") != "please" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(p.body)
}
