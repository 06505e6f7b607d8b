package client

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/api"
)

// world is an agent whose pods a test sets.
type world struct {
	mu      sync.Mutex
	pods    []v1.Pod
	changed chan struct{}
}

func running(name string) v1.Pod {
	return v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: "u-1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []v1.ContainerStatus{
			{Name: "app", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		}},
	}
}

func (w *world) set(pods ...v1.Pod) {
	w.mu.Lock()
	w.pods = pods
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *world) list() []v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods
}

func newWorld() *world {
	return &world{pods: []v1.Pod{running("web")}, changed: make(chan struct{}, 1)}
}

// serve returns a client of w.
func (w *world) serve(t *testing.T) *Client {
	t.Helper()
	return serve(t, func(out http.ResponseWriter, r *http.Request) {
		if r.FormValue("watch") == "" {
			_ = json.NewEncoder(out).Encode(api.List{Pods: v1.PodList{Items: w.list()}})
			return
		}
		events := json.NewEncoder(out)
		for before := w.list(); ; before = w.list() {
			for _, p := range before {
				_ = events.Encode(api.Event{Type: api.Modified, Pod: &p})
			}
			_ = events.Encode(api.Event{Type: api.Synced})
			_ = http.NewResponseController(out).Flush()
			select {
			case <-w.changed:
				now := w.list()
				for _, p := range before {
					if len(now) == 0 || now[0].UID != p.UID {
						_ = events.Encode(api.Event{Type: api.Deleted, Pod: &p})
					}
				}
			case <-r.Context().Done():
				return
			}
		}
	})
}
