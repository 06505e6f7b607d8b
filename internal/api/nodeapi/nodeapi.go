// Package nodeapi is the HTTP API of a node, the same as the kubelet's: kubectl's logs, exec
// and port-forward end here, by way of the API server, and metrics-server and Prometheus read
// here.
//
//	Serve ──▶ listener ──▶ authenticate ──▶ route ──▶ authorize ──▶ limit ──▶ handler
//	          bounded      access.go        routes.go  access.go     limits.go
//
// routes.go has all paths in one table, with the right that each needs. A request
// needs the right of the same entry that serves it, so that no spelling of a path
// avoids the check. A client without valid credentials gets 401 for every path.
//
// Local returns the same paths without authentication and authorization, for the local socket:
// a process that may open the socket may do everything.
//
// The package keeps no state but caches and counters. All resources that clients can use are bounded: connections,
// streams, headers, bodies, caches, and the time that an answer may take.
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

// Pods are the pods of the agent.
type Pods interface {
	// List returns all pods with their present status. They are only read.
	List() ([]*v1.Pod, []pod.Refusal)
}

// Runtime is the container runtime. The streaming URLs that it returns can be used once.
type Runtime interface {
	// Observe reads the sandboxes and containers of a pod.
	Observe(ctx context.Context, uid pod.UID) (pod.Observed, error)
	// All reads the sandboxes and containers of all pods.
	All(ctx context.Context) (map[pod.UID]*pod.Observed, error)
	ExecURL(ctx context.Context, containerID string, command []string, s cri.Streams) (string, error)
	AttachURL(ctx context.Context, containerID string, s cri.Streams) (string, error)
	PortForwardURL(ctx context.Context, sandboxID string, ports ...int32) (string, error)
	// Exec waits for the end of a command.
	Exec(ctx context.Context, containerID string, command []string, timeout time.Duration) (output []byte, exitCode int32, err error)
	Checkpoint(ctx context.Context, containerID, path string, timeout time.Duration) error
}

// Logs finds the logs of containers.
type Logs interface {
	// LogPath returns the log file of a container, and a channel that is closed once the
	// container has ended. The error is fs.ErrNotExist if the container has no log.
	LogPath(ctx context.Context, uid pod.UID, containerID string) (path string, done <-chan struct{}, err error)
}

// Stats measures the resource usage of pods.
type Stats interface {
	Summary(ctx context.Context, onlyCPUAndMemory bool) (*statsv1alpha1.Summary, error)
}

// Metrics are pages for Prometheus. A page that is nil is answered with 404.
type Metrics struct{ Main, Cadvisor, Resource, Probes, SLIs http.Handler }

// Check is a health check of a part of the agent.
type Check struct {
	Name string
	Err  func(context.Context) error // returns nil if the part is healthy
}

// Config configures an API.
type Config struct {
	Node    string
	Version string // of berth
	Started time.Time

	Pods    Pods
	Runtime Runtime
	Logs    Logs
	Stats   Stats // nil: /stats/summary does not exist
	Metrics Metrics
	// Count wraps the handler of a path on a server (readwrite, readonly, healthz or local), to
	// count its requests. May be nil.
	Count func(server, path string, stream bool, next http.Handler) http.Handler
	// OnWebSocket is called for each stream over WebSocket: exec, attach or portforward. May be nil.
	OnWebSocket func(subresource string)
	Checks      []Check // besides ping, which never fails

	// SandboxEnded returns a channel that is closed when a sandbox has ended, or ctx
	// ends. Nil: a port-forward does not notice the end of its sandbox.
	SandboxEnded func(ctx context.Context, uid pod.UID, sandboxID string) <-chan struct{}

	Configz       any                   // the configuration in force
	Flags         map[string]string     // as they were given
	SetVerbosity  func(level int) error // nil: it can't be changed
	CheckpointDir string                // empty: there are no checkpoints
	SystemLogDir  string                // what /logs/ shows; empty: nothing
	Journal       Journal               // nil: there is none, and log queries are answered with files
	Enabled       Enabled               // the optional parts that are on
	StreamIdle    time.Duration         // time after which an idle stream is ended
	Access        Access                // not needed for Local
	TLS           TLS                   // not needed for Local
	Limits        Limits                // zero: the defaults
	Log           *slog.Logger
}

// Enabled says which optional parts of the API are on.
type Enabled struct{ Debugging, SystemLogs, SystemLogQuery, Profiling, DebugFlags bool }

// API is the HTTP API of the node.
type API struct {
	Config

	access  *access // nil: only the local socket is served
	streams *streams
	reader  logReader
}

// New returns an API, or an error that names what is missing in c. The API has to be closed.
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
	if c.Access.enabled() {
		var err error
		if a.access, err = newAccess(c.Access, c.Node, c.Limits, c.Log); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Close releases the watches that follow logs.
func (a *API) Close() error { return a.reader.Close() }

// Local returns the handler of all paths, without authentication.
func (a *API) Local() http.Handler { return a.bounded(a.mux("local", allRoutes)) }
