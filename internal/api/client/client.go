// Package client is the client of the local API, on the socket of a running berth, and of the node
// API, on that socket or over the network. Its errors are for the user of a command: they say
// what is wrong and what to do next.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/api"
)

const (
	// headerTimeout is how long the server may take to send the header of an answer. Logs and
	// watches send it at once, even without data.
	headerTimeout = 15 * time.Second
	// maxProblem is how many bytes of the body of an error are read.
	maxProblem = 4 << 10
	// localURL is the base of requests on the socket. Its host is not used.
	localURL = "http://berth"
)

// Client is a client of the berth of one root directory. It has to be closed.
type Client struct {
	rootDir   string
	socket    string
	spare     string // a second socket, which is tried if no process answers at the first
	transport *http.Transport
}

// New returns a client of the berth whose root directory is given. It does not
// connect yet.
func New(rootDir string) (*Client, error) {
	if rootDir == "" {
		return nil, errors.New("the root directory is empty: give one with --root-dir")
	}
	c := &Client{rootDir: rootDir, socket: api.SocketPath(rootDir), spare: spareSocket(rootDir)}
	c.transport = &http.Transport{
		DialContext:           c.dial,
		ResponseHeaderTimeout: headerTimeout,
		DisableCompression:    true,
	}
	return c, nil
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		if spare, spareErr := (&net.Dialer{}).DialContext(ctx, "unix", c.spare); spareErr == nil {
			return spare, nil
		}
	}
	return conn, err
}

// spareSocket returns the spare socket of a root directory, whose path may be relative.
func spareSocket(rootDir string) string {
	if full, err := filepath.Abs(rootDir); err == nil {
		rootDir = full
	}
	return api.SpareSocketPath(rootDir)
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Filter chooses pods. An empty field matches all pods.
type Filter struct {
	Namespace string
	Name      string // of the pod, or of its manifest
}

func (f Filter) query() url.Values {
	q := url.Values{}
	if f.Namespace != "" {
		q.Set("namespace", f.Namespace)
	}
	if f.Name != "" {
		q.Set("name", f.Name)
	}
	return q
}

// Pods returns the pods that f matches, and all refused manifests. It is an error if no pod has the
// name in f.
func (c *Client) Pods(ctx context.Context, f Filter) (*api.List, error) {
	return read[api.List](ctx, c, "/v1/pods", f.query())
}

// Version returns the version of the running berth.
func (c *Client) Version(ctx context.Context) (*api.Version, error) {
	return read[api.Version](ctx, c, "/v1/version", nil)
}

// Watch calls handle with the present state and then with each change, until ctx ends, handle
// returns an error, or the connection ends.
func (c *Client) Watch(ctx context.Context, f Filter, handle func(api.Event) error) error {
	return c.watch(ctx, "/v1/pods", f.query(), handle)
}

func (c *Client) watch(ctx context.Context, path string, q url.Values, handle func(api.Event) error) error {
	q.Set("watch", "1")
	r, err := c.get(ctx, path, q)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	return readEvents(ctx, c, "watch", r.Body, func(e api.Event) (bool, error) { return false, handle(e) })
}

// explainEnd returns an error that says why a stream has ended early.
func (c *Client) explainEnd(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the %s ended because berth on %s stopped: try again once it runs", what, c.rootDir)
	}
	return fmt.Errorf("read the %s from %s: %w", what, c.socket, err)
}

// read returns the JSON value at a path.
func read[T any](ctx context.Context, c *Client, path string, q url.Values) (*T, error) {
	r, err := c.get(ctx, path, q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }()
	var value T
	if err := json.NewDecoder(r.Body).Decode(&value); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.socket, err)
	}
	return &value, nil
}

// readEvents calls handle with each event of an answer, until handle returns true or an error. what names the
// request in messages.
func readEvents[E any](ctx context.Context, c *Client, what string, answer io.Reader, handle func(E) (last bool, err error)) error {
	events := json.NewDecoder(answer)
	for {
		var e E
		if err := events.Decode(&e); err != nil {
			return c.explainEnd(ctx, what, err)
		}
		if last, err := handle(e); last || err != nil {
			return err
		}
	}
}

// get sends a GET request, and returns the response if its status is 200. Its body has to be closed.
func (c *Client) get(ctx context.Context, path string, q url.Values) (*http.Response, error) {
	return c.do(ctx, http.MethodGet, path, q)
}

// do is get for all methods.
func (c *Client) do(ctx context.Context, method, path string, q url.Values) (*http.Response, error) {
	return c.send(ctx, method, path, q, http.NoBody)
}

// send is do for requests that have a body.
func (c *Client) send(ctx context.Context, method, path string, q url.Values, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, localURL+path+"?"+q.Encode(), body)
	if err != nil {
		return nil, fmt.Errorf("make the request for %s: %w", path, err)
	}
	r, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if r.StatusCode == http.StatusOK {
		return r, nil
	}
	defer func() { _ = r.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(r.Body, maxProblem))
	if problem := strings.TrimSpace(string(text)); problem != "" {
		return nil, errors.New(problem)
	}
	return nil, fmt.Errorf("berth on %s answered %s", c.rootDir, r.Status)
}

// unreachable returns an error that says why there is no answer, and what to do about it.
func (c *Client) unreachable(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("berth is not running on %s (no socket at %s): start it with 'berth run', or give its root with --root-dir", c.rootDir, c.socket)
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("berth is not running on %s (no answer at %s): start it with 'berth run', or give its root with --root-dir", c.rootDir, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("you may not talk to %s: use root, or join group %s", c.socket, api.Group)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("berth on %s does not answer: it may be overloaded or stuck, see its log", c.rootDir)
	}
	return fmt.Errorf("talk to berth at %s: %w", c.socket, err)
}
