package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"berth/internal/api"
	"berth/internal/api/find"
)

// pingInterval is the time between two pings on a stream. They keep firewalls from dropping an idle
// connection, and detect that the other end is gone.
const pingInterval = 5 * time.Second

// NodeAPI is a client of the kubelet's API, with streams into containers. The API is reached over
// the socket of a berth, or over the network.
type NodeAPI struct {
	base *url.URL
	name string // for messages
	// upgrade returns a round tripper that upgrades a request to SPDY.
	upgrade func() (httpstream.UpgradeRoundTripper, error)
	// pods lists all pods of the node.
	pods func(context.Context) ([]*v1.Pod, error)
	// watch is Client.Watch; nil for a node on the network, which has no watch.
	watch func(context.Context, Filter, func(api.Event) error) error
	// network configures requests over the network; nil for a socket.
	network *rest.Config
}

// NodeAPI returns a client of the node API on the socket.
func (c *Client) NodeAPI() *NodeAPI {
	return &NodeAPI{
		base: &url.URL{Scheme: "http", Host: "berth"},
		name: "berth on " + c.rootDir,
		upgrade: func() (httpstream.UpgradeRoundTripper, error) {
			// A socket needs neither proxies nor WebSockets.
			return spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{
				UpgradeTransport: &http.Transport{DialContext: c.dial}, PingPeriod: pingInterval,
			})
		},
		pods: func(ctx context.Context) ([]*v1.Pod, error) {
			list, err := c.Pods(ctx, Filter{})
			if err != nil {
				return nil, err
			}
			return pointers(&list.Pods), nil
		},
		watch: c.Watch,
	}
}

func pointers(list *v1.PodList) []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods
}

// Pod returns the pod that f matches, as find.Filter.One does.
func (n *NodeAPI) Pod(ctx context.Context, f Filter) (*v1.Pod, error) {
	pods, err := n.pods(ctx)
	if err != nil {
		return nil, err
	}
	p, missing := find.Filter(f).One(pods)
	if missing != nil {
		return nil, missing
	}
	return p, nil
}

// reload returns the present state of a pod: of its successor if it was replaced, and nil if it is
// gone.
func (n *NodeAPI) reload(ctx context.Context, p *v1.Pod) (*v1.Pod, error) {
	now, err := n.Pod(ctx, Filter{Namespace: p.Namespace, Name: p.Name})
	if missing := (*find.Error)(nil); errors.As(err, &missing) {
		return nil, nil
	}
	return now, err
}
