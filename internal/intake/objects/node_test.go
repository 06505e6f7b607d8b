package objects

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// node records which pods were enqueued, and the log.
type node struct {
	*API
	log *lockedBuffer

	mu       sync.Mutex
	enqueued []string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// startNode runs an API provider until the test ends.
func startNode(t *testing.T, s *server) *node {
	t.Helper()
	n := newNode(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return n
}

func newNode(t *testing.T, s *server) *node {
	t.Helper()
	n := &node{log: &lockedBuffer{}}
	a, err := NewAPI(APIConfig{Client: s.client(), Log: slog.New(slog.NewTextHandler(n.log, nil)), Enqueue: n.changed})
	must(t, err)
	n.API = a
	return n
}

func (n *node) changed(_ context.Context, uid pod.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.enqueued = append(n.enqueued, string(uid))
}

// news returns the pods that were enqueued since the last call.
func (n *node) news() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := strings.Join(n.enqueued, " ")
	n.enqueued = nil
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// podWith is a pod that reads ConfigMaps, and Secrets if their names begin with "s".
func podWith(uid string, refs ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-" + uid, Namespace: "default", UID: pod.UID(uid)}}
	c := v1.Container{Name: "app"}
	for _, name := range refs {
		from := v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
		if strings.HasPrefix(name, "s") {
			from = v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
		}
		c.EnvFrom = append(c.EnvFrom, from)
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

func configMapOf(name, value string) *v1.ConfigMap {
	return &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: pod.UID(name + value)},
		Data:       map[string]string{"key": value},
	}
}

func secretOf(name, value string) *v1.Secret {
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: pod.UID(name + value)},
		Data:       map[string][]byte{"key": []byte(value)},
	}
}

// want reads a ConfigMap.
func (n *node) want(t *testing.T, name, value string) *v1.ConfigMap {
	t.Helper()
	c, err := n.ConfigMap(t.Context(), "default", name)
	must(t, err)
	if c.Data["key"] != value {
		t.Errorf("configmap %s has %q, want %q", name, c.Data["key"], value)
	}
	return c
}
