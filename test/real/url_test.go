//go:build real

package real

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	n.start("--manifest-url", url, "--manifest-url-header", "X-Word: please")
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
