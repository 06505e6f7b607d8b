//go:build real

package kit

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ReadyWatch records the changes of the condition Ready of a Node.
type ReadyWatch struct {
	t    *testing.T
	mu   sync.Mutex
	seen []ReadySample // each differs from the one before
}

// ReadySample is a status that the condition Ready of a Node changed to.
type ReadySample struct {
	At      time.Time
	ready   corev1.ConditionStatus
	Message string
}

// WatchReady watches the condition Ready of a Node until the test ends.
func WatchReady(t *testing.T, admin kubernetes.Interface, node string) *ReadyWatch {
	t.Helper()
	w, err := admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	Must(t, err)
	r := &ReadyWatch{t: t}
	done := make(chan struct{})
	t.Cleanup(func() { w.Stop(); <-done })
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if n, ok := e.Object.(*corev1.Node); ok {
				r.add(n)
			}
		}
	}()
	return r
}

func (r *ReadyWatch) add(n *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && (len(r.seen) == 0 || r.seen[len(r.seen)-1].ready != c.Status) {
			r.seen = append(r.seen, ReadySample{time.Now(), c.Status, c.Message})
		}
	}
}

// Unready is why the Node was ever not ready.
func (r *ReadyWatch) Unready() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, s := range r.seen {
		if s.ready != corev1.ConditionTrue {
			all = append(all, fmt.Sprintf("%s: %s", s.ready, s.Message))
		}
	}
	return all
}

// Await returns what was seen first of a status since a moment.
func (r *ReadyWatch) Await(want corev1.ConditionStatus, since time.Time) ReadySample {
	r.t.Helper()
	var found ReadySample
	Within(r.t, WaitTimeout, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.IndexFunc(r.seen, func(s ReadySample) bool { return s.ready == want && s.At.After(since) })
		if i < 0 {
			return fmt.Errorf("ready is not %s: %+v", want, r.seen)
		}
		found = r.seen[i]
		return nil
	})
	return found
}
