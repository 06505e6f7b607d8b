//go:build real

package kit

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/test/fixture"
)

// Registry is a registry on the loopback of a node, with the faults that a test wants.
type Registry struct {
	t       *testing.T
	Host    string
	backend *fixture.Registry

	Mu          sync.Mutex
	User        string         // the only user who may pull; empty: all may
	Status      int            // of all answers; 0: what they should be
	ChunkDelay  time.Duration  // between two pieces of a layer
	CutLayers   int            // how many layers are broken off in the middle
	WrongLength bool           // layers are longer than their manifest says
	Mute        bool           // nothing is answered
	Stall       bool           // nothing comes after half a layer
	Requests    map[string]int // requests, by method and what comes after the host
	ReadersGone int            // readers that went before they had all
}

// NewRegistry starts a registry. With TLS, its certificate is signed by no authority.
func (n *Node) NewRegistry(useTLS bool) *Registry {
	n.T.Helper()
	h := &Registry{t: n.T, backend: fixture.NewRegistry(n.T), Requests: map[string]int{}}
	l := n.ListenLoopback(n.T)
	h.Host = l.Addr().String()
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	n.T.Cleanup(func() { _ = s.Close() })
	if useTLS {
		// The certificate of net/http's own tests is good enough.
		fake := httptest.NewUnstartedServer(nil)
		fake.StartTLS()
		s.TLSConfig = &tls.Config{Certificates: fake.TLS.Certificates, MinVersion: tls.VersionTLS12}
		fake.Close()
		go func() { _ = s.ServeTLS(l, "", "") }()
		return h
	}
	go func() { _ = s.Serve(l) }()
	return h
}

func (h *Registry) Set(change func()) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	change()
}

// Count returns the number of requests whose path has that suffix.
func (h *Registry) Count(method, end string) int {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	n := 0
	for what, times := range h.Requests {
		if strings.HasPrefix(what, method+" ") && strings.HasSuffix(what, end) {
			n += times
		}
	}
	return n
}

func (h *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.Mu.Lock()
	h.Requests[r.Method+" "+r.URL.Path]++
	user, status, slow := h.User, h.Status, h.ChunkDelay
	layer := r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
	cut, lies, stuck := layer && h.CutLayers > 0, layer && h.WrongLength, layer && h.Stall
	h.Mu.Unlock()
	if !h.awaitVoice(r.Context()) {
		h.Set(func() { h.ReadersGone++ })
		return
	}
	if user != "" && !fixture.LoggedIn(w, r, user) {
		return
	}
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	if !layer || (slow == 0 && !cut && !lies && !stuck) {
		h.backend.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	h.backend.ServeHTTP(answer, r)
	if lies {
		answer.Body.Write(make([]byte, 1<<20))
	}
	h.trickle(w, r, answer, slow, cut, stuck)
}

// awaitVoice waits as long as the registry is mute. It returns false if the other side
// hung up before.
func (h *Registry) awaitVoice(ctx context.Context) bool {
	for {
		h.Mu.Lock()
		mute := h.Mute
		h.Mu.Unlock()
		if !mute {
			return true
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
}

// trickle sends an answer piece by piece, or only half of it and then nothing more.
func (h *Registry) trickle(w http.ResponseWriter, r *http.Request, answer *httptest.ResponseRecorder, slow time.Duration, cut, stuck bool) {
	body := answer.Body.Bytes()
	large := len(body) > 64<<10
	cut, stuck = cut && large, stuck && large
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(answer.Code)
	if cut {
		h.Set(func() { h.CutLayers-- })
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	if stuck {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		h.Set(func() { h.ReadersGone++ })
		return
	}
	for len(body) > 0 {
		piece := min(len(body), 64<<10)
		if _, err := w.Write(body[:piece]); err != nil {
			h.Set(func() { h.ReadersGone++ })
			return
		}
		_ = http.NewResponseController(w).Flush()
		body = body[piece:]
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
			h.Set(func() { h.ReadersGone++ })
			return
		}
	}
}

// Push makes an image of the workload, with some bytes that can't be packed, and
// returns its name.
func (h *Registry) Push(name string, ballast int) string {
	h.t.Helper()
	program, err := fixture.Build("workload")
	if err != nil {
		h.t.Fatal(err)
	}
	h.backend.Push(name, program, ballast)
	return h.Host + "/" + name
}

// Login is a docker configuration for the registry.
func (h *Registry) Login(user string) string {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + fixture.Password))
	return fmt.Sprintf(`{"auths":{"%s":{"auth":"%s"}}}`, h.Host, auth)
}
