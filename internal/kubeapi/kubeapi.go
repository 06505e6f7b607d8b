// Package kubeapi makes the clients of an API server out of a kubeconfig file,
// with the limits and the user agent that cluster operators expect of a node.
//
// It makes three. The one for heartbeats has a connection and a timeout of its
// own and is never held back: whatever else the node asks for, the server goes
// on hearing that it lives. The one for events has a rate of its own, so that a
// burst of events takes nothing from pods.
package kubeapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"
)

// Content types that API servers speak.
const (
	Protobuf = "application/vnd.kubernetes.protobuf"
	JSON     = "application/json"
)

// Defaults, as those of the kubelet.
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

// noLimit is client-go's word for a client that is not held back.
const noLimit = -1

// Config says where the API server is and how it is to be used.
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
	HeartbeatTimeout time.Duration // zero: a time that fits the kubelet's lease
}

// Clients are the clients of one API server.
type Clients struct {
	General   *Client
	Heartbeat *Client
	Events    *Client
	Server    string // its address, for people to read

	connections *connrotation.ConnectionTracker
}

// Client speaks to the groups of the API that a node needs. client-go's own set
// of clients has all of them, and makes the program larger by millions of bytes.
type Client struct {
	core         *corev1.CoreV1Client
	coordination *coordinationv1.CoordinationV1Client
}

func newClient(config *rest.Config, over *http.Client) (*Client, error) {
	core, err := corev1.NewForConfigAndClient(config, over)
	if err != nil {
		return nil, err
	}
	coordination, err := coordinationv1.NewForConfigAndClient(config, over)
	if err != nil {
		return nil, err
	}
	return &Client{core, coordination}, nil
}

// CoreV1 is the group of pods, nodes and events.
func (c *Client) CoreV1() corev1.CoreV1Interface { return c.core }

// CoordinationV1 is the group of leases.
func (c *Client) CoordinationV1() coordinationv1.CoordinationV1Interface { return c.coordination }

// Reconnect drops all connections; the clients make new ones when they need
// them. It helps when the server has vanished without a word, and after a
// certificate was replaced.
func (c *Clients) Reconnect() { c.connections.CloseAll() }

// New returns clients of the server that a kubeconfig names. It does not connect
// yet.
func New(c Config) (*Clients, error) {
	if c.UserAgent == "" {
		return nil, errors.New("kubeapi: UserAgent is needed")
	}
	if c.HeartbeatTimeout < 0 {
		return nil, fmt.Errorf("kubeapi: a heartbeat timeout of %v can't be", c.HeartbeatTimeout)
	}
	base, err := Load(c.Kubeconfig)
	if err != nil {
		return nil, err
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
	shared, err := rest.HTTPClientFor(general)
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
	own, err := rest.HTTPClientFor(heartbeat)
	if err != nil {
		return nil, err
	}
	out.Heartbeat, err = newClient(heartbeat, own)
	return out, err
}

func limited(base *rest.Config, qps float32, burst int) *rest.Config {
	config := rest.CopyConfig(base)
	config.QPS, config.Burst = cmp.Or(qps, defaultQPS), cmp.Or(burst, defaultBurst)
	return config
}

// Load reads the kubeconfig at path. Files that it names are found beside it,
// and are read again whenever they change.
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

// UserAgent is how berth shows itself in the audit logs of a server, in the form
// that the programs of Kubernetes use: its own name first, and then the version
// of the kubelet whose place it takes.
func UserAgent(version, kubelet string) string {
	agent := fmt.Sprintf("berth/%s (%s/%s) kubelet/%s", version, runtime.GOOS, runtime.GOARCH, kubelet)
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '-' // it goes into a header
		}
		return r
	}, agent)
}
