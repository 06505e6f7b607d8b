package client

import (
	"net/http"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// ending finds out whether the server sent the exit status of a process. The library takes a
// connection that broke for a process that ended with exit code 0.
type ending struct {
	httpstream.UpgradeRoundTripper
	connected, received atomic.Bool
}

func (e *ending) missing() bool { return e.connected.Load() && !e.received.Load() }

// NewConnection implements httpstream.UpgradeRoundTripper.
func (e *ending) NewConnection(r *http.Response) (httpstream.Connection, error) {
	c, err := e.UpgradeRoundTripper.NewConnection(r)
	if err != nil {
		return nil, err
	}
	e.connected.Store(true)
	return endingConnection{c, e}, nil
}

type endingConnection struct {
	httpstream.Connection
	ending *ending
}

// CreateStream implements httpstream.Connection.
func (c endingConnection) CreateStream(h http.Header) (httpstream.Stream, error) {
	s, err := c.Connection.CreateStream(h)
	if err != nil || h.Get(v1.StreamType) != v1.StreamTypeError {
		return s, err
	}
	return endingStream{s, c.ending}, nil
}

type endingStream struct {
	httpstream.Stream
	ending *ending
}

// Read implements io.Reader.
func (s endingStream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	if n > 0 {
		s.ending.received.Store(true)
	}
	return n, err
}
