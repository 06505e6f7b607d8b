package client

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"berth/internal/find"
	"berth/internal/server/api"
)

// pingEvery keeps streams open through what forgets silent connections, and finds
// out that the other end is gone.
const pingEvery = 5 * time.Second

// NodeAPI is what every kubelet has, with streams into containers. It is
// reached over the socket of a berth, or over the network.
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
				UpgradeTransport: &http.Transport{DialContext: c.dial}, PingPeriod: pingEvery,
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

// Remote is where a node is on the network, and who asks.
type Remote struct {
	Server   string // such as https://node-1:10250
	CertFile string // of the client, with its key
	KeyFile  string
	CAFile   string // who signed the certificate of the server; empty: somebody whom this machine trusts
	Insecure bool   // believe that the server is who it says
}

// NewRemote returns the API of a node on the network. It does not connect yet.
func NewRemote(r Remote) (*NodeAPI, error) {
	base, err := url.Parse(r.Server)
	switch {
	case err != nil || base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("the server is %q: give it as in https://node-1:10250", r.Server)
	case (r.CertFile == "") != (r.KeyFile == ""):
		return nil, errors.New("a client certificate and its key belong together: give both --client-certificate and --client-key")
	case r.Insecure && r.CAFile != "":
		return nil, errors.New("--insecure-skip-tls-verify and --certificate-authority exclude each other")
	}
	config := &rest.Config{Host: r.Server, TLSClientConfig: rest.TLSClientConfig{
		CertFile: r.CertFile, KeyFile: r.KeyFile, CAFile: r.CAFile, Insecure: r.Insecure,
	}}
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to talk to %s: %w", r.Server, err)
	}
	plain.Timeout = headerTimeout
	n := &NodeAPI{base: base, name: r.Server, network: config}
	n.upgrade = func() (httpstream.UpgradeRoundTripper, error) {
		tls, err := rest.TLSConfigFor(config)
		if err != nil {
			return nil, err
		}
		return spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{TLS: tls, Proxier: http.ProxyFromEnvironment, PingPeriod: pingEvery})
	}
	n.pods = func(ctx context.Context) ([]*v1.Pod, error) { return n.remotePods(ctx, plain) }
	return n, nil
}

func (n *NodeAPI) remotePods(ctx context.Context, plain *http.Client) ([]*v1.Pod, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.base.JoinPath("pods").String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make the request for the pods: %w", err)
	}
	answer, err := plain.Do(request)
	if err != nil {
		return nil, n.unreachable(ctx, err)
	}
	defer func() {
		_ = answer.Body.Close()
		plain.CloseIdleConnections()
	}()
	switch answer.StatusCode {
	case http.StatusOK:
		var list v1.PodList
		if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
			return nil, fmt.Errorf("read the pods of %s: %w", n.name, err)
		}
		return pointers(&list), nil
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("%s does not know who you are: give a certificate that it accepts with --client-certificate and --client-key", n.name)
	case http.StatusForbidden:
		return nil, fmt.Errorf("%s does not let you read its pods: ask for the right to 'get nodes/pods' and 'create nodes/proxy'", n.name)
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	return nil, fmt.Errorf("%s answered %s: %s", n.name, answer.Status, strings.TrimSpace(string(text)))
}

func (n *NodeAPI) unreachable(ctx context.Context, err error) error {
	var unknown x509.UnknownAuthorityError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &unknown):
		return fmt.Errorf("nobody whom this machine trusts has signed the certificate of %s: say who did with --certificate-authority (%w)", n.name, err)
	}
	return fmt.Errorf("reach %s: %w", n.name, err)
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
