package localapi

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/leaktest"
	"berth/internal/lib/pod"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fakePods is a state that tests set.
type fakePods struct {
	mu       sync.Mutex
	pods     []*v1.Pod
	refused  []pod.Refusal
	history  []pod.Changes // the state at each version
	watchers map[chan struct{}]struct{}
}

func (f *fakePods) List() ([]*v1.Pod, []pod.Refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*v1.Pod(nil), f.pods...), append([]pod.Refusal(nil), f.refused...)
}

// Since implements Pods by comparing states.
func (f *fakePods) Since(version uint64) pod.Changes {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := pod.Changes{Version: uint64(len(f.history)) + 1, All: version == 0, Pods: slices.Clone(f.pods), Refused: slices.Clone(f.refused), NewRefusals: true}
	if version > 0 && version < now.Version {
		for _, p := range f.history[version-1].Pods {
			if !slices.ContainsFunc(f.pods, func(q *v1.Pod) bool { return q.UID == p.UID }) {
				now.Gone = append(now.Gone, p.UID)
			}
		}
		now.Pods = slices.DeleteFunc(now.Pods, func(p *v1.Pod) bool { return slices.Contains(f.history[version-1].Pods, p) })
	}
	return now
}

func (f *fakePods) Watch(ctx context.Context) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers == nil {
		f.watchers = map[chan struct{}]struct{}{}
	}
	w := make(chan struct{}, 1)
	f.watchers[w] = struct{}{}
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, w)
	})
	return w
}

func (f *fakePods) set(refused []pod.Refusal, pods ...*v1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.history = append(f.history, pod.Changes{Pods: f.pods, Refused: f.refused})
	f.pods, f.refused = pods, refused
	for w := range f.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// fakeLogs has one log file for each container id, in a folder.
type fakeLogs struct {
	folder string
	done   chan struct{}
}

func (f fakeLogs) LogPath(_ context.Context, _ pod.UID, id string) (string, <-chan struct{}, error) {
	path := filepath.Join(f.folder, id+".log")
	if strings.HasPrefix(id, "gone") {
		return "", nil, fmt.Errorf("container %s: %w", id, fs.ErrNotExist)
	}
	return path, f.done, nil
}

func (f fakeLogs) write(t *testing.T, id string, lines ...string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(f.folder, id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range lines {
		fmt.Fprintf(file, "2026-01-02T03:04:%02dZ stdout F %s\n", i, l)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// station is a server on a socket, with the fakes that it serves.
type station struct {
	t      *testing.T
	pods   *fakePods
	events *fakeEvents
	drains *fakeDrains
	logs   fakeLogs
	path   string
	client *http.Client
	stop   func() // stops the server and waits for it
}

func start(t *testing.T, streams int) *station {
	t.Helper()
	return startWith(t, func(c *Config) { c.Streams = streams })
}

// startWith starts a server whose configuration was changed by more.
func startWith(t *testing.T, more func(*Config)) *station {
	t.Helper()
	s := &station{
		t: t, pods: &fakePods{}, events: &fakeEvents{changed: make(chan struct{}, 1)}, path: socketPath(t),
		drains: newDrains(),
		logs:   fakeLogs{folder: t.TempDir(), done: make(chan struct{})},
	}
	config := Config{Pods: s.pods, Logs: s.logs, Events: s.events, Drains: s.drains, Version: "1.2.3", Log: discard()}
	more(&config)
	server, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(s.path, "no such group")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve ended with %v", err)
		}
	})
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.path)
		},
	}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.stop()
	})
	return s
}

// socketPath is short enough for a socket, which t.TempDir may not be.
func socketPath(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "berth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return filepath.Join(folder, "berth.sock")
}

// open returns the answer to a request, which ends with the test.
func (s *station) open(url string) *http.Response {
	s.t.Helper()
	r, err := s.client.Get("http://berth" + url)
	if err != nil {
		s.t.Fatalf("get %s: %v", url, err)
	}
	s.t.Cleanup(func() { _ = r.Body.Close() })
	return r
}

// get returns the code and the body of the answer to a request.
func (s *station) get(url string) (int, string) {
	s.t.Helper()
	r := s.open(url)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatalf("read %s: %v", url, err)
	}
	_ = r.Body.Close()
	return r.StatusCode, string(body)
}

// newPod is a static pod of a manifest, on node-1, with these containers running.
func newPod(namespace, name string, containers ...string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-node-1", UID: pod.UID(namespace + "-" + name),
			Annotations: map[string]string{pod.AnnotationSource: pod.SourceFile},
		},
		Spec:   v1.PodSpec{NodeName: "node-1"},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c, Image: "localhost/app:1"})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: c, ContainerID: "containerd://" + c,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
	return p
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
