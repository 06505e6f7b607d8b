// Package cri talks to a container runtime over the Container Runtime Interface
// and turns its answers into the types of package pod.
//
// It keeps no state but its connections, the calls that are under way, and which
// sandboxes are of this root. Every call but the stream of events is bounded: by a
// deadline or, where it may take any time (pulls, commands without a timeout), by a
// Version call that the runtime has to answer meanwhile. The error of a call says what
// it was for. A call is made once: the caller decides on a retry.
package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// maxMessage is the largest answer that is accepted. A node with very many dead
// containers lists more than gRPC's own limit of 4 MiB.
const maxMessage = 16 << 20

// startTimeout bounds the making of a sandbox or container, which may have to
// wait for network plugins or a slow disk.
const startTimeout = 4 * time.Minute

// Config says where the runtime is.
type Config struct {
	RuntimeEndpoint string        // unix:///path
	ImageEndpoint   string        // empty: the same as RuntimeEndpoint
	Timeout         time.Duration // of calls that should answer at once

	// Root is the id of the root directory whose pods the client sees. Empty: all pods.
	Root string
	// OwnsLogs reports by its log directory whether a pod that has no label with the id of a root
	// directory is ours. Nil: all such pods are.
	OwnsLogs func(dir string) bool

	// Call is called at the beginning of each call to the runtime, with the operation as the
	// kubelet's metrics name it; the function that it returns is called at the end. It is for
	// metrics and traces, and may be nil.
	Call func(ctx context.Context, operation string) (context.Context, func(error))
}

// Client is a connection to a runtime. It connects when it is first used, and
// again by itself whenever the runtime comes back.
type Client struct {
	runtime runtimeapi.RuntimeServiceClient
	image   runtimeapi.ImageServiceClient
	conns   []*grpc.ClientConn
	calls   *callTable
	timeout time.Duration

	root     string
	ownsLogs func(dir string) bool
	verdicts verdicts
}

// New returns a client of the runtime at c. It does not connect yet.
func New(c Config) (*Client, error) {
	if c.Timeout <= 0 {
		return nil, errors.New("cri: the timeout must be positive")
	}
	if c.ImageEndpoint == "" {
		c.ImageEndpoint = c.RuntimeEndpoint
	}
	calls := newCallTable()
	runtimeConn, err := dial(c.RuntimeEndpoint, calls, c.Call)
	if err != nil {
		return nil, err
	}
	client := &Client{
		runtime: runtimeapi.NewRuntimeServiceClient(runtimeConn),
		image:   runtimeapi.NewImageServiceClient(runtimeConn),
		conns:   []*grpc.ClientConn{runtimeConn},
		calls:   calls,
		timeout: c.Timeout,
		root:    c.Root, ownsLogs: c.OwnsLogs,
	}
	if c.ImageEndpoint != c.RuntimeEndpoint {
		imageConn, err := dial(c.ImageEndpoint, calls, c.Call)
		if err != nil {
			return nil, errors.Join(err, runtimeConn.Close())
		}
		client.image = runtimeapi.NewImageServiceClient(imageConn)
		client.conns = append(client.conns, imageConn)
	}
	return client, nil
}

func dial(endpoint string, calls *callTable, call callFunc) (*grpc.ClientConn, error) {
	if path, ok := strings.CutPrefix(endpoint, "unix:///"); !ok || path == "" {
		return nil, fmt.Errorf("runtime endpoint %q: want unix:///path/to/socket", endpoint)
	}
	// A runtime that was restarted is back within a second. gRPC's own backoff
	// would wait for up to two minutes.
	reconnect := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
	conn, err := grpc.NewClient(endpoint,
		grpc.WithChainUnaryInterceptor(append(callInterceptors(call), calls.intercept, boundedOutput())...),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
	)
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint %q: %w", endpoint, err)
	}
	return conn, nil
}

// Changes calls changed at once, and then whenever the connection to the runtime breaks or
// is there again, until ctx ends.
func (c *Client) Changes(ctx context.Context, changed func()) {
	conn := c.conns[0]
	was := conn.GetState()
	changed()
	for conn.WaitForStateChange(ctx, was) {
		is := conn.GetState()
		if (was == connectivity.Ready) != (is == connectivity.Ready) {
			changed()
		}
		was = is
	}
}

// Close ends the connections.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// Version is the name and version of a runtime.
type Version struct{ Name, Version string }

// Version asks the runtime for its name and version.
func (c *Client) Version(ctx context.Context) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return Version{}, fmt.Errorf("ask the runtime for its version: %w", err)
	}
	return Version{Name: r.RuntimeName, Version: r.RuntimeVersion}, nil
}

// ErrNotReady marks the status of a runtime that answers, but can't run pods yet.
var ErrNotReady = errors.New("not ready")

// IsNotFound reports whether the runtime answered that it has no such object.
func IsNotFound(err error) bool { return code(err) == codes.NotFound }

// IsUnimplemented reports whether the runtime answered that it does not implement the call.
func IsUnimplemented(err error) bool { return code(err) == codes.Unimplemented }

// Reason is the text of err without gRPC's wrapping, fit for a pod's status.
func Reason(err error) string {
	var s interface{ GRPCStatus() *status.Status }
	switch {
	case !errors.As(err, &s):
		return err.Error()
	case errors.Is(err, pod.ErrNoAnswer):
		return pod.ErrNoAnswer.Error() + ": " + s.GRPCStatus().Message()
	default:
		return s.GRPCStatus().Message()
	}
}

func code(err error) codes.Code {
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		return s.GRPCStatus().Code()
	}
	return codes.Unknown
}
