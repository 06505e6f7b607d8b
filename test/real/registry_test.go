//go:build real

package real

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/fixture"
)

// hub is a registry on the loopback of a node, with the faults that a test wants.
type hub struct {
	t       *testing.T
	host    string
	backend *fixture.Registry

	mu     sync.Mutex
	user   string         // who may pull; empty: everybody
	status int            // of all answers; 0: what they should be
	slow   time.Duration  // between two pieces of a layer
	cut    int            // how many layers are broken off in the middle
	lies   bool           // layers are longer than their manifest says
	mute   bool           // nothing is answered
	stuck  bool           // nothing comes after half a layer
	asked  map[string]int // requests, by method and what comes after the host
	gone   int            // readers that went before they had all
}

// newHub starts a registry. With TLS, nobody has signed its certificate.
func (n *node) newHub(useTLS bool) *hub {
	n.t.Helper()
	h := &hub{t: n.t, backend: fixture.NewRegistry(n.t), asked: map[string]int{}}
	l := n.listen(n.t)
	h.host = l.Addr().String()
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	n.t.Cleanup(func() { _ = s.Close() })
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

func (h *hub) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// count is how often something was asked for whose path has that end.
func (h *hub) count(method, end string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for what, times := range h.asked {
		if strings.HasPrefix(what, method+" ") && strings.HasSuffix(what, end) {
			n += times
		}
	}
	return n
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked[r.Method+" "+r.URL.Path]++
	user, status, slow := h.user, h.status, h.slow
	layer := r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
	cut, lies, stuck := layer && h.cut > 0, layer && h.lies, layer && h.stuck
	h.mu.Unlock()
	if !h.awaitVoice(r.Context()) {
		h.set(func() { h.gone++ })
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
func (h *hub) awaitVoice(ctx context.Context) bool {
	for {
		h.mu.Lock()
		mute := h.mute
		h.mu.Unlock()
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
func (h *hub) trickle(w http.ResponseWriter, r *http.Request, answer *httptest.ResponseRecorder, slow time.Duration, cut, stuck bool) {
	body := answer.Body.Bytes()
	large := len(body) > 64<<10
	cut, stuck = cut && large, stuck && large
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(answer.Code)
	if cut {
		h.set(func() { h.cut-- })
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	if stuck {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		h.set(func() { h.gone++ })
		return
	}
	for len(body) > 0 {
		piece := min(len(body), 64<<10)
		if _, err := w.Write(body[:piece]); err != nil {
			h.set(func() { h.gone++ })
			return
		}
		_ = http.NewResponseController(w).Flush()
		body = body[piece:]
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
			h.set(func() { h.gone++ })
			return
		}
	}
}

// push makes an image of the workload, with some bytes that can't be packed, and
// returns its name.
func (h *hub) push(name string, ballast int) string {
	h.t.Helper()
	program, err := workload()
	if err != nil {
		h.t.Fatal(err)
	}
	h.backend.Push(name, program, ballast)
	return h.host + "/" + name
}

// login is a docker configuration for the registry.
func (h *hub) login(user string) string {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + fixture.Password))
	return fmt.Sprintf(`{"auths":{"%s":{"auth":"%s"}}}`, h.host, auth)
}

// applySecret puts a Secret with a login beside the pods.
func (n *node) applySecret(name, login string) {
	n.t.Helper()
	text, err := json.Marshal(v1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(login)},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.put(filepath.Join(n.manifests, name+".yaml"), text)
}

// podOf is a pod that runs an image until it is stopped.
func podOf(name, image string, secrets ...string) *v1.Pod {
	p := newPod(name, "sleep")
	p.Spec.Containers[0].Image = image
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
	}
	return p
}

// waitRefused waits until a pod waits because its image can't be pulled, and says why.
func (n *node) waitRefused(name, why string) {
	n.t.Helper()
	n.waitPod(name, "waits for its image", startLimit, func(p v1.Pod) string {
		w := app(p).State.Waiting
		return boolText(w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff") && strings.Contains(w.Message, why))
	})
}
