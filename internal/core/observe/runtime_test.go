package observe

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

// runtime holds pods of one sandbox and one container each, and a stream of
// events that can be cut.
type runtime struct {
	mu       sync.Mutex
	pods     map[pod.UID]pod.ContainerState
	reads    int
	lists    int
	opened   int
	reading  func() // called in the middle of a read, if set
	failing  error
	noEvents bool
	stream   chan cri.Event
	cut      chan struct{}
}

func newRuntime() *runtime {
	return &runtime{pods: map[pod.UID]pod.ContainerState{}, stream: make(chan cri.Event), cut: make(chan struct{})}
}

func (r *runtime) set(change func(*runtime)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *runtime) observed(uid pod.UID) *pod.Observed {
	o := &pod.Observed{UID: uid}
	if state, ok := r.pods[uid]; ok {
		o.Sandboxes = []pod.Sandbox{{ID: "sandbox of " + string(uid), State: pod.SandboxReady}}
		o.Containers = []pod.Container{{ID: "container of " + string(uid), State: state}}
	}
	return o
}

func (r *runtime) Pod(_ context.Context, uid pod.UID) (pod.Observed, error) {
	r.mu.Lock()
	r.reads++
	state, err, reading := *r.observed(uid), r.failing, r.reading
	r.mu.Unlock()
	if reading != nil {
		reading()
	}
	return state, err
}

func (r *runtime) List(context.Context) (map[pod.UID]*pod.Observed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists++
	out := map[pod.UID]*pod.Observed{}
	for uid := range r.pods {
		out[uid] = r.observed(uid)
	}
	return out, r.failing
}

func (r *runtime) Events(ctx context.Context, opened func(), each func(cri.Event)) error {
	r.mu.Lock()
	failing, noEvents := r.failing, r.noEvents
	r.opened++
	r.mu.Unlock()
	if failing != nil {
		return failing
	}
	opened()
	if noEvents {
		return status.Error(codes.Unimplemented, "no events here")
	}
	for {
		select {
		case e := <-r.stream:
			each(e)
		case <-r.cut:
			return errors.New("the stream broke")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// counted returns how often pods were listed since the last time.
func (r *runtime) counted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.lists
	r.lists = 0
	return n
}

// fixture is an observer over a runtime, in a bubble of time.
type fixture struct {
	*Observer
	*runtime
	t   *testing.T
	log *strings.Builder

	mutex   sync.Mutex
	changed []pod.UID
}

func withObserver(t *testing.T, test func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{t: t, runtime: newRuntime(), log: &strings.Builder{}}
		var err error
		w.Observer, err = New(Config{
			Runtime: w.runtime, Log: slog.New(slog.NewTextHandler(w.log, nil)), RelistInterval: time.Minute, PollInterval: time.Second,
			Enqueue: func(_ context.Context, uid pod.UID) {
				w.mutex.Lock()
				defer w.mutex.Unlock()
				w.changed = append(w.changed, uid)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		test(w)
	})
}

// run starts the observer, and stops it when the bubble ends.
func (w *fixture) run() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
}

// fresh reads a pod as a worker does that acted on it at since.
func (w *fixture) fresh(uid pod.UID, since time.Time) pod.Observed {
	w.t.Helper()
	o, err := w.Get(w.t.Context(), uid, since)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// expectReads checks how often pods were read since the last time.
func (w *fixture) expectReads(want int) {
	w.t.Helper()
	w.runtime.mu.Lock()
	defer w.runtime.mu.Unlock()
	if w.reads != want {
		w.t.Fatalf("%d reads, want %d", w.reads, want)
	}
	w.reads = 0
}

// expectChanged checks which pods were enqueued since the last call.
func (w *fixture) expectChanged(want ...pod.UID) {
	w.t.Helper()
	synctest.Wait()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !slices.Equal(w.changed, want) {
		w.t.Fatalf("enqueued %v, want %v", w.changed, want)
	}
	w.changed = nil
}

// logged returns how often the log has a text.
func (w *fixture) logged(text string) int {
	synctest.Wait()
	return strings.Count(w.log.String(), text)
}

// happens is an event at this moment.
func (w *fixture) happens(uid pod.UID) {
	w.stream <- cri.Event{UID: uid, At: w.clock().wall}
	synctest.Wait()
}

// tick sleeps for a moment, so that later events have a later time.
func tick() { time.Sleep(time.Millisecond) }
