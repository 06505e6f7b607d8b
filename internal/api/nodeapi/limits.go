package nodeapi

import (
	"bufio"
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits limits the requests of one client, and of all clients together.
type Limits struct {
	Streams          int // exec, attach, port-forward and logs, at a time
	StreamsPerUser   int // so that one user can't take all streams
	Connections      int
	ConnectionsPerIP int
	Reviews          int // token and access reviews per second, for one address
	HeaderBytes      int
	BodyBytes        int
	HeaderTimeout    time.Duration // until the request is read
	AnswerTimeout    time.Duration // for answers that are no streams
	IdleTimeout      time.Duration // between two requests on a connection
}

// The API server is one user, on behalf of all users of the cluster, so the limits per user and
// address are high.
const (
	defaultStreams        = 500
	defaultStreamsPerUser = 400
	defaultConnections    = 2000
	defaultPerIP          = 1000
	defaultReviews        = 20
	defaultHeaderBytes    = 64 << 10
	defaultBodyBytes      = 64 << 10 // none of the paths takes more than a few bytes
	defaultHeaderTimeout  = 10 * time.Second
	defaultAnswerTimeout  = 60 * time.Second
	defaultIdleTimeout    = 90 * time.Second
)

func (l Limits) orDefaults() Limits {
	return Limits{
		Streams:          cmp.Or(l.Streams, defaultStreams),
		StreamsPerUser:   cmp.Or(l.StreamsPerUser, defaultStreamsPerUser),
		Connections:      cmp.Or(l.Connections, defaultConnections),
		ConnectionsPerIP: cmp.Or(l.ConnectionsPerIP, defaultPerIP),
		Reviews:          cmp.Or(l.Reviews, defaultReviews),
		HeaderBytes:      cmp.Or(l.HeaderBytes, defaultHeaderBytes),
		BodyBytes:        cmp.Or(l.BodyBytes, defaultBodyBytes),
		HeaderTimeout:    cmp.Or(l.HeaderTimeout, defaultHeaderTimeout),
		AnswerTimeout:    cmp.Or(l.AnswerTimeout, defaultAnswerTimeout),
		IdleTimeout:      cmp.Or(l.IdleTimeout, defaultIdleTimeout),
	}
}

// bounded limits the size of request bodies, and the time in which a body has to arrive. A request
// without a body has no such deadline: it would end a stream.
func (a *API) bounded(h http.Handler) http.Handler {
	return http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.Limits.HeaderTimeout))
		}
		h.ServeHTTP(w, r)
	}), int64(a.Limits.BodyBytes))
}

// answer wraps the handler of a short request. A client that does not read the answer in time is
// disconnected.
func (a *API) answer(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The deadline goes with the request: net/http resets it for the next.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(a.Limits.AnswerTimeout))
		if err := serve(w, r); err != nil {
			fail(w, err)
		}
	}
}

// stream wraps the handler of a stream, and refuses it if too many are open.
func (a *API) stream(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user := userOf(r.Context()).Name
		if !a.streams.acquire(user) {
			w.Header().Set("Retry-After", "1")
			fail(w, problemf(http.StatusTooManyRequests, "too many streams are open: end one and try again"))
			return
		}
		defer a.streams.release(user)
		if err := serve(&streamWriter{ResponseWriter: w, ctx: r.Context(), idle: a.StreamIdle}, a.withDebugLog(r)); err != nil {
			fail(w, err)
		}
	}
}

// streams counts the open streams.
type streams struct {
	limits Limits

	mu     sync.Mutex
	all    int
	byUser map[string]int // only users with an open stream
}

func newStreams(l Limits) *streams { return &streams{limits: l, byUser: map[string]int{}} }

func (s *streams) acquire(user string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.limits.Streams || s.byUser[user] >= s.limits.StreamsPerUser {
		return false
	}
	s.all++
	s.byUser[user]++
	return true
}

func (s *streams) release(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.byUser[user]--; s.byUser[user] == 0 {
		delete(s.byUser, user)
	}
}

// streamWriter flushes each write. It ends a stream that is idle, and a hijacked connection when
// ctx ends, which net/http no longer does.
type streamWriter struct {
	http.ResponseWriter
	ctx  context.Context
	idle time.Duration
}

// Unwrap is for http.ResponseController.
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *streamWriter) Write(b []byte) (int, error) {
	control := http.NewResponseController(s.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(s.idle))
	n, err := s.ResponseWriter.Write(b)
	if err != nil {
		return n, err
	}
	return n, control.Flush()
}

// Hijack implements http.Hijacker.
func (s *streamWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := &streamConn{Conn: conn, idle: s.idle}
	c.extendDeadline()
	c.stop = context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	return c, buffered, nil
}

// streamConn is a connection with a deadline that each read and write extends.
type streamConn struct {
	net.Conn
	idle time.Duration
	stop func() bool
}

func (c *streamConn) extendDeadline() { _ = c.SetDeadline(time.Now().Add(c.idle)) }

func (c *streamConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.extendDeadline()
	}
	return n, err
}

func (c *streamConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.extendDeadline()
	}
	return n, err
}

func (c *streamConn) Close() error {
	c.stop()
	return c.Conn.Close()
}
