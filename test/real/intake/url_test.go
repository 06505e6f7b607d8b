//go:build real

package intake

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/real/kit"
)

func TestPodsFromURL(t *testing.T) {
	t.Parallel()
	// given a server that has a pod for those who know the word
	n := kit.NewNode(t)
	n.Configure("httpCheckFrequency: 1s\n")
	var page page
	l := n.ListenLoopback(t)
	server := http.Server{Handler: &page, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	url := "http://" + l.Addr().String() + "/pods"

	page.set(http.StatusOK, kit.NewPod("one", "sleep"))
	n.Start("--manifest-url", strings.Replace(url, "http://", "http://geheim-user:geheim-word@", 1)+"?token=geheim-token",
		"--manifest-url-header", "X-Word: please", "--manifest-url-header", "Authorization: Bearer geheim-bearer")
	n.WaitRunning("one")

	// when it has a list, then all of its pods run
	one, two := kit.NewPod("one", "sleep"), kit.NewPod("two", "sleep")
	page.set(http.StatusOK, &v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{*one, *two}})
	before := n.Instances(n.WaitRunning("one", "two"))

	// when it fails or answers nonsense, then they run on, and that is logged
	for status, content := range map[int]any{http.StatusInternalServerError: "broken", http.StatusOK: "<html>"} {
		page.set(status, content)
		n.Wait("the bad answer to be reported", 10*time.Second, func() string {
			return kit.MissingUnless(strings.Contains(n.Berth("get", "pods").Stderr, url))
		})
		n.MustKeepInstances(before)
	}

	// when it is well again, and has one pod less, then that one goes
	delete(before, "one/app")
	page.set(http.StatusOK, two)
	n.WaitGone("one")
	n.WaitSettled("two")
	n.MustKeepInstances(before)

	// and the secrets are nowhere: in no file, no page, no log, no pod
	published := map[string]string{
		"get": n.MustBerth("get", "pods", "-o", "yaml"), "describe": n.MustBerth("describe", "pod", "two"), "events": n.MustBerth("get", "events", "-o", "yaml"),
	}
	for _, path := range []string{"/configz", "/flagz", "/statusz", "/debug/pprof/cmdline"} {
		published[path] = mustGet(n, path)
	}
	err := filepath.WalkDir(n.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(path, "/containerd/") {
			return nil //nolint:nilerr // what goes meanwhile tells nothing
		}
		content, err := os.ReadFile(path)
		published[path] = string(content)
		return err
	})
	if err != nil || published[n.LogFile()] == "" {
		t.Errorf("the files of the agent can't be read: %v", err)
	}
	for where, text := range published {
		if strings.Contains(text, "geheim") {
			t.Errorf("%s tells a secret", where)
		}
	}
}

// mustGet returns a page of the agent's socket.
func mustGet(n *kit.Node, path string) string {
	n.T.Helper()
	body, err := n.AgentPage(path)
	if err != nil {
		n.T.Fatal(err)
	}
	return string(body)
}

// page is a page of a server, for requests with a header that holds the word.
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
