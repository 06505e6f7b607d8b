package client

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"

	"berth/internal/api"
	"berth/internal/api/client/nodetest"
)

// world is a node with pods, for tests.
type world struct {
	nodetest.Node
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

func newWorld(run func(context.Context, nodetest.Process) error) *world {
	return &world{Node: nodetest.Node{Run: run}, pods: []v1.Pod{running("web")}, changed: make(chan struct{}, 1)}
}

func (w *world) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", w.Handler())
	mux.HandleFunc("/pods", func(out http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(out).Encode(v1.PodList{Items: w.list()})
	})
	mux.HandleFunc("/v1/pods", func(out http.ResponseWriter, r *http.Request) {
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
	return mux
}

// local is the way to w over a socket.
func (w *world) local(t *testing.T) (*NodeAPI, *Client) {
	t.Helper()
	c := serve(t, w.handler().ServeHTTP)
	return c.NodeAPI(), c
}

// remote is the way to w over the network.
func (w *world) remote(t *testing.T) *NodeAPI {
	t.Helper()
	s := httptest.NewTLSServer(w.handler())
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := NewRemote(Remote{Server: s.URL, CAFile: ca})
	if err != nil {
		t.Fatal(err)
	}
	return n.NodeAPI
}

func web(t *testing.T, n *NodeAPI) *v1.Pod {
	t.Helper()
	p, err := n.Pod(t.Context(), Filter{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shell implements the commands that tests run in a container.
func shell(ctx context.Context, p nodetest.Process) error {
	switch p.Command[0] {
	case "size":
		s := <-p.Sizes
		_, err := fmt.Fprintf(p.Out, "%d x %d, terminal %t\r\n", s.Width, s.Height, p.TTY)
		return err
	case "refused":
		return errors.New("failed to start exec: no such container")
	}
	return nodetest.OnThisMachine(ctx, "/", p)
}

type sizes []remotecommand.TerminalSize

func (s *sizes) Next() *remotecommand.TerminalSize {
	if len(*s) == 0 {
		return nil
	}
	next := (*s)[0]
	*s = (*s)[1:]
	return &next
}

func TestExec(t *testing.T) {
	w := newWorld(shell)
	local, _ := w.local(t)
	for name, n := range map[string]*NodeAPI{"over the socket": local, "over the network": w.remote(t)} {
		t.Run(name, func(t *testing.T) {
			p := web(t, n)
			var out, stderr bytes.Buffer
			err := n.Exec(t.Context(), p, "app", []string{"sh", "-c", "cat; echo oops >&2; exit 3"}, remotecommand.StreamOptions{Stdin: strings.NewReader("typed"), Stdout: &out, Stderr: &stderr})
			var exit *ExitError
			if !errors.As(err, &exit) || exit.Code != 3 || out.String() != "typed" || stderr.String() != "oops\n" {
				t.Errorf("got %v, %q, %q", err, out.String(), stderr.String())
			}
			out.Reset()
			if err := n.Exec(t.Context(), p, "app", []string{"echo", "a b", "-c"}, remotecommand.StreamOptions{Stdout: &out}); err != nil || out.String() != "a b -c\n" {
				t.Errorf("got %v, %q", err, out.String())
			}
			out.Reset()
			size := &sizes{{Width: 80, Height: 24}}
			err = n.Exec(t.Context(), p, "app", []string{"size"}, remotecommand.StreamOptions{Stdout: &out, Stderr: &stderr, Tty: true, TerminalSizeQueue: size})
			if err != nil || out.String() != "80 x 24, terminal true\r\n" {
				t.Errorf("got %v, %q", err, out.String())
			}
			err = n.Exec(t.Context(), p, "app", []string{"refused"}, remotecommand.StreamOptions{Stdout: &out})
			wantError(t, err, "no such container")
		})
	}
}

func TestAttach(t *testing.T) {
	w := newWorld(func(_ context.Context, p nodetest.Process) error {
		_, err := fmt.Fprintln(p.Out, p.Pod, p.Container, len(p.Command))
		return err
	})
	n, _ := w.local(t)
	var out bytes.Buffer
	if err := n.Attach(t.Context(), web(t, n), "app", remotecommand.StreamOptions{Stdout: &out}); err != nil || out.String() != "web app 0\n" {
		t.Errorf("got %v, %q", err, out.String())
	}
}

type connKey struct{}

func TestABrokenConnectionIsNoSuccess(t *testing.T) {
	// Given a process whose exit status is never sent
	w := newWorld(func(ctx context.Context, _ nodetest.Process) error {
		c, ok := ctx.Value(connKey{}).(net.Conn)
		if !ok {
			return errors.New("there is no connection")
		}
		return c.Close()
	})
	root := rootDir(t)
	l, err := net.Listen("unix", api.SocketPath(root))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(w.handler())
	_ = s.Listener.Close()
	s.Listener = l
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.Start()
	t.Cleanup(s.Close)
	n := newClient(t, root).NodeAPI()
	// When the connection breaks
	err = n.Exec(t.Context(), web(t, n), "app", []string{"sleep"}, remotecommand.StreamOptions{Stdout: io.Discard})
	// Then the error says so
	wantError(t, err, "the connection was lost")
}

func TestExecIsInterrupted(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(func(_ context.Context, p nodetest.Process) error {
		close(started)
		_, err := io.Copy(io.Discard, p.In) // until the client goes
		return err
	})
	n, _ := w.local(t)
	ctx, cancel := context.WithCancel(t.Context())
	in, typed := io.Pipe()
	t.Cleanup(func() { _ = typed.Close() })
	p := web(t, n)
	ended := make(chan error, 1)
	go func() {
		ended <- n.Exec(ctx, p, "app", []string{"cat"}, remotecommand.StreamOptions{Stdin: in, Stdout: io.Discard})
	}()
	<-started
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestContainersThatDoNotRun(t *testing.T) {
	w := newWorld(func(_ context.Context, _ nodetest.Process) error { return errors.New("task not found") })
	n, _ := w.local(t)
	exec := func() error {
		return n.Exec(t.Context(), web(t, n), "app", []string{"ls"}, remotecommand.StreamOptions{Stdout: io.Discard})
	}
	with := func(s v1.ContainerState) v1.Pod {
		p := running("web")
		p.Status.ContainerStatuses[0].State = s
		return p
	}
	w.set(with(v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}}))
	wantError(t, exec(), "container app of pod web is waiting: CrashLoopBackOff; see 'berth logs web -c app -p'")
	w.set(with(v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}))
	wantError(t, exec(), "container app of pod web is waiting: ErrImagePull: not found; see 'berth describe pod web'")
	w.set(with(v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 4}}))
	wantError(t, exec(), "container app of pod web has ended with exit code 4; see 'berth logs web -c app'")
	w.set(with(v1.ContainerState{}))
	wantError(t, exec(), "container app of pod web does not run")

	// It ends between the look and the call
	w.set(running("web"))
	p := web(t, n)
	w.set(with(v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 5}}))
	wantError(t, n.Exec(t.Context(), p, "app", []string{"ls"}, remotecommand.StreamOptions{Stdout: io.Discard}), "has ended with exit code 5")

	w.set()
	_, err := n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, `pod "web" not found`)
}

func TestRemoteNodes(t *testing.T) {
	for text, r := range map[string]Remote{
		"give it as in https://node-1:10250": {Server: "http://node-1:10250"},
		"give both --client-certificate":     {Server: "https://node-1:10250", CertFile: "x"},
		"exclude each other":                 {Server: "https://node-1:10250", CAFile: "x", Insecure: true},
		"prepare to talk to":                 {Server: "https://node-1:10250", CAFile: "/nonexistent"},
	} {
		_, err := NewRemote(r)
		wantError(t, err, text)
	}
	answer := http.StatusUnauthorized
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", answer) }))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // a handshake fails below
	t.Cleanup(s.Close)
	n, err := NewRemote(Remote{Server: s.URL, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "does not know who you are", "--client-certificate")
	answer = http.StatusForbidden
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "does not let you read its pods", "nodes/proxy")
	answer = http.StatusTeapot
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "answered 418 I'm a teapot: no")
	n, err = NewRemote(Remote{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "--certificate-authority")
	n, err = NewRemote(Remote{Server: strings.Replace(s.URL, "127.0.0.1", "localhost", 1)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "does not have that name", "the name of the node")
}
