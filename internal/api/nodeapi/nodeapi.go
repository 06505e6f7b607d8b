// Package nodeapi is the API with which a node answers others, as the kubelet's:
// kubectl's logs, exec and port-forward end here, by way of the API server, and
// metrics-server and Prometheus read here.
//
//	Serve ──▶ listener ──▶ authenticate ──▶ route ──▶ authorize ──▶ limit ──▶ handler
//	          bounded      access.go        routes.go  access.go     limits.go
//
// routes.go has all paths in one table, with the right that each needs. A request
// is held against the right of the very entry that serves it, so that no way of
// writing a path gets around it. Whoever is not known learns nothing but 401.
//
// Local returns the same paths without the questions, for the local socket: whoever
// may open that may do everything.
//
// The package writes no state. It asks for what it needs when it is asked, and
// what somebody can make it hold is bounded: connections, streams, headers, bodies,
// caches, and the time that an answer may take.
package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

// Pods is what the agent knows.
type Pods interface {
	// List returns all pods with their present status. They are only read.
	List() ([]*v1.Pod, []pod.Refusal)
}

// Runtime is where containers run. The URLs that it gives are good once.
type Runtime interface {
	// Observe returns what the runtime has of a pod now.
	Observe(ctx context.Context, uid pod.UID) (pod.Observed, error)
	// All returns that of all pods.
	All(ctx context.Context) (map[pod.UID]*pod.Observed, error)
	ExecURL(ctx context.Context, containerID string, command []string, s cri.Streams) (string, error)
	AttachURL(ctx context.Context, containerID string, s cri.Streams) (string, error)
	PortForwardURL(ctx context.Context, sandboxID string, ports ...int32) (string, error)
	// Exec waits for the end of a command.
	Exec(ctx context.Context, containerID string, command []string, timeout time.Duration) (output []byte, exitCode int32, err error)
	Checkpoint(ctx context.Context, containerID, path string, timeout time.Duration) error
}

// Logs is where the logs of containers are.
type Logs interface {
	// LogPath returns the file that a container logs to, and a channel that is
	// closed once it has ended. The error is fs.ErrNotExist if there is none.
	LogPath(ctx context.Context, uid pod.UID, containerID string) (path string, done <-chan struct{}, err error)
}

// Stats are what pods use.
type Stats interface {
	Summary(ctx context.Context, onlyCPUAndMemory bool) (*statsv1alpha1.Summary, error)
}

// Metrics are pages for Prometheus. One that is nil is not found.
type Metrics struct{ Main, Cadvisor, Resource, Probes, SLIs http.Handler }

// Check is a part of the agent that can be unwell.
type Check struct {
	Name string
	Err  func(context.Context) error // nil: it is well
}

// Config is what an API needs.
type Config struct {
	Node    string
	Version string // of berth
	Started time.Time

	Pods    Pods
	Runtime Runtime
	Logs    Logs
	Stats   Stats // nil: there are none
	Metrics Metrics
	// Count is told of every request to a server (readwrite, readonly, healthz or local) on
	// a path, and hands it on to next. May be nil.
	Count  func(server, path string, stream bool, next http.Handler) http.Handler
	Checks []Check // beside ping, which is always well

	// SandboxEnded returns a channel that is closed once a sandbox is no more, or ctx
	// ends. Nil: nobody knows, and a port-forward is not told.
	SandboxEnded func(ctx context.Context, uid pod.UID, sandboxID string) <-chan struct{}

	Configz       any                   // the configuration in force
	Flags         map[string]string     // as they were given
	SetVerbosity  func(level int) error // nil: it can't be changed
	CheckpointDir string                // empty: there are no checkpoints
	SystemLogDir  string                // what /logs/ shows; empty: nothing
	Enabled       Enabled               // what is turned on
	StreamIdle    time.Duration         // after which a silent stream is ended
	Access        Access                // who may; not needed for Local
	TLS           TLS                   // not needed for Local
	Limits        Limits                // zero: the defaults
	Log           *slog.Logger
}

// Enabled is what of the API is turned on.
type Enabled struct{ Debugging, SystemLogs, Profiling, DebugFlags bool }

// API answers.
type API struct {
	Config

	access  *access // nil: nobody but the local socket is answered
	streams *streams
	reader  logReader
}

// New returns an API, or what its config lacks. It is to be closed.
func New(c Config) (*API, error) {
	switch {
	case c.Node == "" || c.Pods == nil || c.Runtime == nil || c.Logs == nil || c.Log == nil:
		return nil, errors.New("node API: Node, Pods, Runtime, Logs and Log are needed")
	case c.StreamIdle <= 0:
		return nil, fmt.Errorf("node API: a stream can't be idle for %v", c.StreamIdle)
	}
	for _, check := range c.Checks {
		if check.Name == "" || check.Name == pingCheck || check.Err == nil {
			return nil, fmt.Errorf("node API: check %q needs a name of its own and a function", check.Name)
		}
	}
	c.Limits = c.Limits.orDefaults()
	a := &API{Config: c, streams: newStreams(c.Limits), reader: newLogReader(c.Log)}
	if c.Access.known() {
		var err error
		if a.access, err = newAccess(c.Access, c.Node, c.Limits, c.Log); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Close lets go of what is held to follow logs.
func (a *API) Close() error { return a.reader.Close() }

// Local returns all paths for clients who need not say who they are.
func (a *API) Local() http.Handler { return a.bounded(a.mux("local", everything)) }
