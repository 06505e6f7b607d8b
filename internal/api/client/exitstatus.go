package client

import (
	"net/http"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// exitStatus records whether the server has sent the exit status of a process. Without it, the library
// would take a broken connection for a process with exit code 0.
type exitStatus struct {
	httpstream.UpgradeRoundTripper
	connected, received atomic.Bool
}

func (e *exitStatus) missing() bool { return e.connected.Load() && !e.received.Load() }

// NewConnection implements httpstream.UpgradeRoundTripper.
func (e *exitStatus) NewConnection(r *http.Response) (httpstream.Connection, error) {
	c, err := e.UpgradeRoundTripper.NewConnection(r)
	if err != nil {
		return nil, err
	}
	e.connected.Store(true)
	return exitStatusConnection{c, e}, nil
}

type exitStatusConnection struct {
	httpstream.Connection
	status *exitStatus
}

// CreateStream implements httpstream.Connection.
func (c exitStatusConnection) CreateStream(h http.Header) (httpstream.Stream, error) {
	s, err := c.Connection.CreateStream(h)
	if err != nil || h.Get(v1.StreamType) != v1.StreamTypeError {
		return s, err
	}
	return exitStatusStream{s, c.status}, nil
}

type exitStatusStream struct {
	httpstream.Stream
	status *exitStatus
}

// Read implements io.Reader.
func (s exitStatusStream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	if n > 0 {
		s.status.received.Store(true)
	}
	return n, err
}
