//go:build real

package kit

import (
	"context"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/api/client"
)

// Watch records every state of every pod, also states that are too short to be found by polling. It
// ends with the agent or the test.
type Watch struct {
	n *Node

	mu    sync.Mutex
	seen  map[string][]v1.Pod  // by the name in the manifest
	gone  map[string]time.Time // when the agent reported the pod as deleted
	ended error
}

func (n *Node) Watch() *Watch {
	n.T.Helper()
	w := &Watch{n: n, seen: map[string][]v1.Pod{}, gone: map[string]time.Time{}}
	c, err := client.New(n.Root)
	if err != nil {
		n.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	synced, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		err := c.Watch(ctx, client.Filter{}, func(e api.Event) error {
			if e.Type == api.Synced {
				close(synced)
			}
			w.note(e)
			return nil
		})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = err
	}()
	n.T.Cleanup(func() {
		cancel()
		<-ended
		c.Close()
	})
	select {
	case <-synced:
	case <-ended:
		n.T.Fatal(w.ended)
	}
	return w
}

func (w *Watch) note(e api.Event) {
	if e.Pod == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := strings.TrimSuffix(e.Pod.Name, "-"+NodeName)
	if e.Type == api.Deleted {
		w.gone[name] = time.Now()
		return
	}
	delete(w.gone, name)
	w.seen[name] = append(w.seen[name], *e.Pod)
}

// States are all that were seen of a pod until now, the oldest first.
func (w *Watch) States(name string) []v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]v1.Pod(nil), w.seen[name]...)
}

// WaitGone waits until a pod is gone, and returns its last state and when that was.
func (w *Watch) WaitGone(name string) (last v1.Pod, at time.Time) {
	w.n.T.Helper()
	w.n.Wait("pod "+name+" to be gone", StartTimeout, func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		at = w.gone[name]
		return MissingUnless(!at.IsZero())
	})
	states := w.States(name)
	return states[len(states)-1], at
}

// MustNotGoBack wants the phase of a pod that had but one life never to go back.
func (w *Watch) MustNotGoBack(name string) {
	w.n.T.Helper()
	states := w.States(name)
	for i := 1; i < len(states); i++ {
		was, is := states[i-1], states[i]
		if was.Status.Phase != is.Status.Phase && (is.Status.Phase == v1.PodPending || was.Status.Phase != v1.PodPending && is.Status.Phase == v1.PodRunning) {
			w.n.T.Errorf("the phase of %s went back: it was %s, then %s", name, Summary(was), Summary(is))
		}
	}
}
