// Package kubeclient makes the clients of an API server from a kubeconfig file, with the limits and
// the user agent that cluster operators expect of a node.
//
// There are three. The client for heartbeats has a connection and a timeout of its own and no rate
// limit, so that no other request delays a heartbeat. The client for events has a rate limit of its
// own, so that a burst of events does not delay the requests for pods.
package kubeclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
)

// Content types of requests to API servers.
const (
	Protobuf = "application/vnd.kubernetes.protobuf"
	JSON     = "application/json"
)

// Defaults, the same as the kubelet's.
const (
	defaultQPS   = 50
	defaultBurst = 100
	// defaultHeartbeatTimeout is shorter than the time between two renewals of a
	// lease, so that several can be tried before the lease runs out.
	defaultHeartbeatTimeout = 8 * time.Second
)

const (
	dialTimeout = 10 * time.Second
	keepAlive   = 30 * time.Second
)

// noLimit is client-go's value for a client without a rate limit.
const noLimit = -1

// Config configures the clients of an API server.
type Config struct {
	Kubeconfig string
	UserAgent  string

	// How many requests a second, on average and at once. Zero: as the kubelet
	// does. Negative: without a limit.
	QPS        float32
	Burst      int
	EventQPS   float32
	EventBurst int

	ContentType      string        // empty: Protobuf
	HeartbeatTimeout time.Duration // zero: defaultHeartbeatTimeout

	// Anonymous ignores the credentials of the kubeconfig.
	Anonymous bool
	// ClientCertificate, if set, returns the certificate for each new connection, instead of the
	// one of the kubeconfig. A nil certificate: none is used. An open connection keeps its
	// certificate: call Reconnect after a change.
	ClientCertificate func() *tls.Certificate
}

// Clients are the clients of one API server.
type Clients struct {
	General   *Client
	Heartbeat *Client
	Events    *Client
	Server    string // the address, for messages

	connections *connrotation.ConnectionTracker
}

// Reconnect closes all connections; the clients open new ones when they need them. It is called
// when the server does not answer any more, and after a certificate was replaced.
func (c *Clients) Reconnect() { c.connections.CloseAll() }

// New returns clients of the server of a kubeconfig. It does not connect yet.
func New(c Config) (*Clients, error) {
	if c.UserAgent == "" {
		return nil, errors.New("kubeclient: UserAgent is needed")
	}
	if c.HeartbeatTimeout < 0 {
		return nil, fmt.Errorf("kubeclient: a heartbeat timeout of %v can't be", c.HeartbeatTimeout)
	}
	base, err := Load(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if c.Anonymous {
		base = rest.AnonymousClientConfig(base)
	}
	clients, err := c.clients(base)
	if err != nil {
		return nil, fmt.Errorf("use kubeconfig %s: %w", c.Kubeconfig, err)
	}
	return clients, nil
}

func (c Config) clients(base *rest.Config) (*Clients, error) {
	out := &Clients{Server: base.Host, connections: connrotation.NewConnectionTracker()}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	base.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return out.connections.Track(conn), nil
	}
	base.UserAgent = c.UserAgent
	base.ContentType = cmp.Or(c.ContentType, Protobuf)
	base.AcceptContentTypes = base.ContentType
	if base.ContentType != JSON {
		base.AcceptContentTypes += "," + JSON
	}

	general := limited(base, c.QPS, c.Burst)
	shared, err := c.httpClient(general)
	if err != nil {
		return nil, err
	}
	if out.General, err = newClient(general, shared); err != nil {
		return nil, err
	}
	if out.Events, err = newClient(limited(base, c.EventQPS, c.EventBurst), shared); err != nil {
		return nil, err
	}

	heartbeat := limited(base, noLimit, 0)
	heartbeat.Timeout = cmp.Or(c.HeartbeatTimeout, defaultHeartbeatTimeout)
	own, err := c.httpClient(heartbeat)
	if err != nil {
		return nil, err
	}
	out.Heartbeat, err = newClient(heartbeat, own)
	return out, err
}

func (c Config) httpClient(config *rest.Config) (*http.Client, error) {
	if c.ClientCertificate == nil {
		return rest.HTTPClientFor(config)
	}
	t, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	// Else the credentials of the kubeconfig would take precedence.
	t.TLS.CertFile, t.TLS.CertData, t.TLS.KeyFile, t.TLS.KeyData = "", nil, "", nil
	t.TLS.GetCertHolder = &transport.GetCertHolder{GetCert: func() (*tls.Certificate, error) {
		return c.ClientCertificate(), nil
	}}
	over, err := transport.New(t)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: over, Timeout: config.Timeout}, nil
}

func limited(base *rest.Config, qps float32, burst int) *rest.Config {
	config := rest.CopyConfig(base)
	config.QPS, config.Burst = cmp.Or(qps, defaultQPS), cmp.Or(burst, defaultBurst)
	return config
}

// Load reads the kubeconfig at path, once. Paths in it are relative to its folder, and client-go
// reads the files again:
//   - client-certificate and client-key at each new connection, and every five
//     minutes; after a change it closes the open connections
//   - certificate-authority every five minutes, for new connections
//   - tokenFile every minute, and after the server refused the token
//
// Values in the kubeconfig itself stay as they were when it was loaded.
func Load(path string) (*rest.Config, error) {
	if path == "" {
		return nil, errors.New("a kubeconfig is needed: say with --kubeconfig where it is")
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	loaded, err := rules.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("kubeconfig %s does not exist: put one there, or give another with --kubeconfig", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	if loaded.CurrentContext == "" {
		return nil, fmt.Errorf("kubeconfig %s has no current-context: set it to one of its contexts", path)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*loaded, "", &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("use kubeconfig %s: %w", path, err)
	}
	return config, nil
}

// UserAgent returns the user agent of berth, in the form that the programs of Kubernetes use: its
// own name first, and then the version of the kubelet that it replaces.
func UserAgent(version, kubelet string) string {
	agent := fmt.Sprintf("berth/%s (%s/%s) kubelet/%s", version, runtime.GOOS, runtime.GOARCH, kubelet)
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '-' // not allowed in a header
		}
		return r
	}, agent)
}
