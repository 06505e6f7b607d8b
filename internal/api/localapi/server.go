// Package localapi is berth's local API on a unix socket: what runs, what happened
// to it, why a manifest was refused, the logs of containers, and the drain of the
// node. Package api describes it.
//
// But for a drain and the images, the server only reads. A watch gets a signal without data, and reads the
// state when its client is ready for it: a slow client holds up its own connection and
// nothing else.
package localapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/runtime/crilog"
)

// Pods is where the server reads the state.
type Pods interface {
	// List returns all pods with their present status, and the refusals that
	// stand. The server does not write to what it is given.
	List() ([]*v1.Pod, []pod.Refusal)
	// Since returns how List differs from what it was at a version, and the version that
	// it has now. At version 0 nothing was there.
	Since(version uint64) pod.Changes
	// Watch returns a channel that holds a value whenever List has something new
	// since the last value was taken. It has room for one and sending to it never
	// blocks. It is let go of when ctx ends.
	Watch(ctx context.Context) <-chan struct{}
}

// Events is where the server reads what happened to pods.
type Events interface {
	// List returns the events of the pods of a namespace, a name and a UID, each
	// of which may be empty. The newest comes last. The server does not write to
	// these events, and neither does the provider any more.
	List(namespace, name string, uid pod.UID) []*v1.Event
	// Watch signals changes of List, as Pods.Watch does.
	Watch(ctx context.Context) <-chan struct{}
}

// Logs is where the server finds the logs.
type Logs interface {
	// LogPath returns the file that a container of a pod logs to, and a channel
	// that is closed when the container has ended (closed already if it had).
	// The id is the runtime's, without the name of the runtime before it. The
	// error is fs.ErrNotExist if the runtime has no such container.
	LogPath(ctx context.Context, uid pod.UID, containerID string) (path string, done <-chan struct{}, err error)
}

// Drains stops the pods of this node, and lets them run again.
type Drains interface {
	// Drain stops pods until that is done, or ctx ends. It calls onEvent with its progress, one
	// event at a time, beginning with api.DrainBegan, and returns the pods that have
	// not ended. If a drain is not allowed now, it returns an error before the first event.
	Drain(ctx context.Context, r api.DrainRequest, onEvent func(api.DrainEvent)) (left []string, err error)
	Undo(ctx context.Context) error
}

// EphemeralContainers adds ephemeral containers to running static pods.
type EphemeralContainers interface {
	// AddContainer adds a container to a pod, which the agent then starts. The error is for users.
	AddContainer(ctx context.Context, p *v1.Pod, c v1.EphemeralContainer) error
}

const (
	defaultStreams = 256
	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 64 << 10 // of a request; most have none
	headerTimeout  = 5 * time.Second
	answerTimeout  = 30 * time.Second // for what is not a stream
	idleTimeout    = time.Minute
	stopTimeout    = 3 * time.Second
)

// Config configures a Server.
type Config struct {
	Pods                Pods
	Logs                Logs
	Events              Events              // nil if no events are recorded
	Drains              Drains              // nil if this node can't be drained
	Images              Images              // nil if the agent does not manage images
	EphemeralContainers EphemeralContainers // nil if no containers can be added
	// Node is the kubelet's API of this node, without authentication: exec, attach, portForward
	// and more. Nil: these paths are not found.
	Node http.Handler
	// Inventory and Waterfalls may be nil.
	Inventory  Inventory
	Waterfalls Waterfalls
	Version    string
	Log        *slog.Logger
	Streams    int // how many watches and logs may be open at a time; 0 means 256
}

// Server answers on the local API.
type Server struct {
	pods       Pods
	logs       Logs
	events     Events
	drains     Drains
	debugs     EphemeralContainers
	imageStore Images
	nodeAPI    http.Handler

	inventory  Inventory
	waterfalls Waterfalls

	version api.Version
	log     *slog.Logger
	streams chan struct{} // holds a value for each open stream
}

// New returns a server, or what its config lacks.
func New(c Config) (*Server, error) {
	switch {
	case c.Pods == nil, c.Logs == nil, c.Log == nil:
		return nil, errors.New("localapi: Pods, Logs and Log are needed")
	case c.Streams < 0:
		return nil, fmt.Errorf("localapi: Streams is %d, and can't be below 0", c.Streams)
	}
	if c.Streams == 0 {
		c.Streams = defaultStreams
	}
	if c.Events == nil {
		c.Events = noEvents{}
	}
	return &Server{
		pods: c.Pods, logs: c.Logs, events: c.Events, drains: c.Drains, debugs: c.EphemeralContainers, nodeAPI: c.Node, log: c.Log,
		imageStore: c.Images, inventory: c.Inventory, waterfalls: c.Waterfalls,
		version: api.NewVersion(c.Version),
		streams: make(chan struct{}, c.Streams),
	}, nil
}

// Serve answers on l until ctx ends, then ends the streams, waits for a short
// while until all requests are done, and closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	reader := crilog.NewReader(s.log)
	defer func() { _ = reader.Close() }()

	h := &http.Server{
		Handler:           bounded(s.routes(reader)),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn), // a panic of ours, or a client that speaks no HTTP
	}
	served := make(chan error, 1)
	group := run.NewGroup(ctx, s.log)
	group.Go("local API", func(context.Context) { served <- h.Serve(l) })
	defer group.Stop()

	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serve the local API: %w", err), h.Close())
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := h.Shutdown(stop); err != nil {
		// A reader that does not read: it is cut off.
		_ = h.Close()
	}
	<-served
	return nil
}

func (s *Server) routes(reader *crilog.Reader) http.Handler {
	logs := s.stream(func(w http.ResponseWriter, r *http.Request) *problem { return s.serveLog(w, r, reader) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/pods", s.servePods)
	mux.HandleFunc("GET /v1/pods/{name}/log", logs)
	mux.HandleFunc("GET /v1/namespaces/{namespace}/pods/{name}/log", logs)
	mux.HandleFunc("GET /v1/events", s.serveEvents)
	mux.HandleFunc("POST /v1/drain", s.stream(s.serveDrain))
	mux.HandleFunc("DELETE /v1/drain", s.answer(s.undoDrain))
	s.routeInventory(mux)
	s.routeImages(mux)
	mux.HandleFunc("POST /v1/pods/{name}/ephemeralcontainers", s.answer(s.addDebug))
	mux.HandleFunc("POST /v1/namespaces/{namespace}/pods/{name}/ephemeralcontainers", s.answer(s.addDebug))
	if s.nodeAPI != nil {
		mux.HandleFunc("/", s.serveNode) // with a /healthz of its own
	} else {
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	}
	mux.HandleFunc("GET /v1/version", s.answer(func(*http.Request) (any, *problem) { return s.version, nil }))
	return mux
}
