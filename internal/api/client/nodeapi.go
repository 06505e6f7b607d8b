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

// pingInterval keeps streams open through what forgets silent connections, and finds
// out that the other end is gone.
const pingInterval = 5 * time.Second

// NodeAPI is a client of the kubelet's API, with streams into containers. The API is reached over
// the socket of a berth, or over the network.
type NodeAPI struct {
	base *url.URL
	name string // for messages
	// upgrade makes what turns one request into streams.
	upgrade func() (httpstream.UpgradeRoundTripper, error)
	// pods lists all of them.
	pods func(context.Context) ([]*v1.Pod, error)
	// watch is Client.Watch; nil if there is no such thing.
	watch func(context.Context, Filter, func(api.Event) error) error
	// network is how to reach it over the network; nil over a socket.
	network *rest.Config
}

// NodeAPI returns that behind the socket.
func (c *Client) NodeAPI() *NodeAPI {
	return &NodeAPI{
		base: &url.URL{Scheme: "http", Host: "berth"},
		name: "berth on " + c.rootDir,
		upgrade: func() (httpstream.UpgradeRoundTripper, error) {
			// Proxies and WebSockets are for the network, and not for a socket.
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

// Pod returns the one pod that f means.
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

// again returns a pod as it is now: its successor if it was replaced, and nil if
// there is none.
func (n *NodeAPI) again(ctx context.Context, p *v1.Pod) (*v1.Pod, error) {
	now, err := n.Pod(ctx, Filter{Namespace: p.Namespace, Name: p.Name})
	if missing := (*find.Error)(nil); errors.As(err, &missing) {
		return nil, nil
	}
	return now, err
}
