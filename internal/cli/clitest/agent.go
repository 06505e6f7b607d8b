// Package clitest helps tests of commands: it has an agent whose pods a test sets, behind the real server, runs commands
// against it, and makes objects for it.
package clitest

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/api/localapi"
	"berth/internal/lib/pod"
)

// Agent is an agent whose pods and refusals a test sets, behind the real server.
type Agent struct {
	RootDir string
	Ended   chan struct{} // a test closes it when the containers have ended

	root    func() *cobra.Command // the commands under test
	changed chan struct{}

	mu      sync.Mutex
	pods    []*v1.Pod
	refused []pod.Refusal
}

// List implements localapi.Pods.
func (a *Agent) List() ([]*v1.Pod, []pod.Refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods, a.refused
}

// Since implements localapi.Pods: it has no versions, and returns all pods each time.
func (a *Agent) Since(uint64) pod.Changes {
	pods, refused := a.List()
	return pod.Changes{Version: 1, All: true, Pods: pods, Refused: refused, NewRefusals: true}
}

// Watch implements localapi.Pods.
func (a *Agent) Watch(context.Context) <-chan struct{} { return a.changed }

// Set replaces the refusals and the pods.
func (a *Agent) Set(refused []pod.Refusal, pods ...*v1.Pod) {
	a.mu.Lock()
	a.pods, a.refused = pods, refused
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// LogPath implements localapi.Logs.
func (a *Agent) LogPath(_ context.Context, _ pod.UID, id string) (string, <-chan struct{}, error) {
	return filepath.Join(a.RootDir, id+".log"), a.Ended, nil
}

// WriteLog appends lines to the log of a container.
func (a *Agent) WriteLog(t *testing.T, id string, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(a.RootDir, id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		_, _ = io.WriteString(f, "2026-01-02T03:04:05Z stdout F "+l+"\n")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// NewRootDir returns a new root directory.
func NewRootDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// StartAgent starts an agent for the commands below root. Functions of more change the configuration of its server.
func StartAgent(t *testing.T, root func() *cobra.Command, more ...func(*localapi.Config)) *Agent {
	t.Helper()
	a := &Agent{root: root, RootDir: NewRootDir(t), changed: make(chan struct{}, 1), Ended: make(chan struct{})}
	config := localapi.Config{Pods: a, Logs: a, Version: "agent-version", Log: slog.New(slog.DiscardHandler)}
	for _, m := range more {
		m(&config)
	}
	s, err := localapi.New(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := localapi.Listen(api.SocketPath(a.RootDir), api.Group)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve ended with %v", err)
		}
	})
	return a
}

// Berth runs a command to its end.
func (a *Agent) Berth(t *testing.T, args ...string) Result {
	t.Helper()
	return Run(t, a.root, "", append(args, "--root-dir", a.RootDir)...)
}

// NoAgent returns a root directory on which no agent runs.
func NoAgent(t *testing.T, root func() *cobra.Command) *Agent {
	t.Helper()
	return &Agent{root: root, RootDir: NewRootDir(t)}
}

// BerthReading runs a command that reads in on stdin.
func (a *Agent) BerthReading(t *testing.T, in string, args ...string) Result {
	t.Helper()
	return Run(t, a.root, in, append([]string{"--root-dir", a.RootDir}, args...)...)
}

// Start starts a command that runs until it is interrupted.
func (a *Agent) Start(t *testing.T, args ...string) *Process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	c := &Process{t: t, Out: bufio.NewReader(r), Interrupt: cancel, Code: make(chan int, 1)}
	go func() {
		c.Code <- Execute(ctx, a.root, w, &c.Stderr, append(args, "--root-dir", a.RootDir)...)
		_ = w.Close()
	}()
	t.Cleanup(cancel)
	return c
}

// WantOutput runs a command that must print the lines of want. How wide columns are, and an age that is a matter of
// rounding, do not count.
func (a *Agent) WantOutput(t *testing.T, args, want string) {
	t.Helper()
	got := a.Berth(t, strings.Fields(args)...)
	if out := strings.NewReplacer("3h0m", "3h", "180m", "3h  ").Replace(got.Out); got.Code != 0 || got.Stderr != "" || !sameText(out, strings.TrimPrefix(want, "\n")) {
		t.Errorf("berth %s: got code %d, stderr %q,\n%s\nwant\n%s", args, got.Code, got.Stderr, got.Out, want)
	}
}

// sameText compares texts by their words.
func sameText(got, want string) bool {
	fields := func(s string) string {
		var out []string
		for l := range strings.Lines(s) {
			out = append(out, strings.Join(strings.Fields(l), " "))
		}
		return strings.Join(out, "\n")
	}
	return fields(got) == fields(want)
}
