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
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"berth/internal/api"
	"berth/internal/api/find"
)

// Node is a node that commands can query: a berth over its socket (Client), or any kubelet over the
// network (RemoteNode). It has to be closed.
type Node interface {
	// Pods returns the pods that f matches. It is an error if no pod has the name in f.
	Pods(ctx context.Context, f Filter) (*api.List, error)
	// Log requests a log.
	Log(ctx context.Context, l LogRequest) (*Log, error)
	// Summary returns the resource usage of the node and its pods.
	Summary(ctx context.Context) (*stats.Summary, error)
	Close()
}

// Remote is the address of a node on the network, and the client's credentials.
type Remote struct {
	Server   string // such as https://node-1:10250
	CertFile string // of the client, with its key
	KeyFile  string
	CAFile   string // the CA of the server's certificate; empty: the CAs that this machine trusts
	Insecure bool   // do not verify the server's certificate
}

// RemoteNode is a node on the network.
type RemoteNode struct {
	*NodeAPI
	plain *http.Client
}

// NewRemote returns a node on the network. It does not connect yet.
func NewRemote(r Remote) (*RemoteNode, error) {
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
	n := &RemoteNode{NodeAPI: &NodeAPI{base: base, name: r.Server, network: config}, plain: plain}
	n.upgrade = func() (httpstream.UpgradeRoundTripper, error) {
		tls, err := rest.TLSConfigFor(config)
		if err != nil {
			return nil, err
		}
		return spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{TLS: tls, Proxier: http.ProxyFromEnvironment, PingPeriod: pingInterval})
	}
	n.pods = n.allPods
	return n, nil
}

// Close closes idle connections.
func (n *RemoteNode) Close() { n.plain.CloseIdleConnections() }

// Pods implements Node. Refusals are not available over the network.
func (n *RemoteNode) Pods(ctx context.Context, f Filter) (*api.List, error) {
	all, err := n.pods(ctx)
	if err != nil {
		return nil, err
	}
	chosen := find.Filter(f).Choose(all)
	if len(chosen) == 0 && f.Name != "" {
		return nil, find.Filter(f).NotFound()
	}
	var list api.List
	for _, p := range chosen {
		list.Pods.Items = append(list.Pods.Items, *p)
	}
	return &list, nil
}

func (n *RemoteNode) allPods(ctx context.Context) ([]*v1.Pod, error) {
	var list v1.PodList
	if err := n.read(ctx, "read its pods", "get nodes/pods", &list, "pods"); err != nil {
		return nil, err
	}
	return pointers(&list), nil
}

// Summary implements Node.
func (n *RemoteNode) Summary(ctx context.Context) (*stats.Summary, error) {
	var s stats.Summary
	if err := n.read(ctx, "read what its pods use", "get nodes/stats", &s, "stats", "summary"); err != nil {
		return nil, err
	}
	return &s, nil
}

// Log implements Node.
func (n *RemoteNode) Log(ctx context.Context, l LogRequest) (*Log, error) {
	p, err := n.Pod(ctx, Filter{Namespace: l.Namespace, Name: l.Pod})
	if err != nil {
		return nil, err
	}
	container, missing := find.Container(p, l.Container)
	if missing != nil {
		return nil, missing
	}
	at := n.base.JoinPath("containerLogs", p.Namespace, p.Name, container)
	at.RawQuery = l.kubeletQuery().Encode()
	r, err := n.get(ctx, at, "read logs", "get nodes/proxy") //nolint:bodyclose // Log.Close does
	if err != nil {
		return nil, err
	}
	log := &Log{Container: container, answer: r, explainEnd: n.explainEnd}
	if l.Container == "" {
		log.Choice = find.Containers(p)
	}
	return log, nil
}

// kubeletQuery returns the query of a log request to a kubelet.
func (l LogRequest) kubeletQuery() url.Values {
	q := url.Values{}
	for key, set := range map[string]bool{"previous": l.Previous, "follow": l.Follow, "timestamps": l.Timestamps} {
		if set {
			q.Set(key, "true")
		}
	}
	if l.Tail >= 0 {
		q.Set("tailLines", strconv.FormatInt(l.Tail, 10))
	}
	if !l.Since.IsZero() {
		q.Set("sinceTime", l.Since.Format(time.RFC3339Nano))
	}
	if l.LimitBytes > 0 {
		q.Set("limitBytes", strconv.FormatInt(l.LimitBytes, 10))
	}
	return q
}

// read decodes the JSON at a path of the node. what and right are as in get.
func (n *RemoteNode) read(ctx context.Context, what, right string, into any, path ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, headerTimeout, errNoAnswer)
	defer cancel()
	r, err := n.get(ctx, n.base.JoinPath(path...), what, right)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return fmt.Errorf("read the answer of %s: %w", n.name, err)
	}
	return nil
}

// errNoAnswer says that the node has not answered in time.
var errNoAnswer = errors.New("it does not answer")

// get returns a successful response. Its body has to be closed. what and right are for the error
// of a user without the right.
func (n *RemoteNode) get(ctx context.Context, at *url.URL, what, right string) (*http.Response, error) {
	// The timeout is of the header only: a log may go on without a limit.
	begun, giveUp := context.WithCancelCause(ctx)
	late := time.AfterFunc(headerTimeout, func() { giveUp(errNoAnswer) })
	defer late.Stop()
	request, err := http.NewRequestWithContext(begun, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make the request for %s: %w", at.Path, err)
	}
	r, err := n.plain.Do(request)
	if err != nil {
		if cause := context.Cause(begun); cause != nil {
			err = cause
		}
		return nil, n.unreachable(ctx, err)
	}
	if r.StatusCode == http.StatusOK {
		return r, nil
	}
	defer func() { _ = r.Body.Close() }()
	switch r.StatusCode {
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("%s does not know who you are: give a certificate that it accepts with --client-certificate and --client-key", n.name)
	case http.StatusForbidden:
		return nil, fmt.Errorf("%s does not let you %s: ask for the right to '%s' (and to 'create nodes/proxy' for commands in containers)", n.name, what, right)
	}
	text, _ := io.ReadAll(io.LimitReader(r.Body, maxProblem))
	return nil, fmt.Errorf("%s answered %s: %s", n.name, r.Status, strings.TrimSpace(string(text)))
}

func (n *RemoteNode) unreachable(ctx context.Context, err error) error {
	var unknown x509.UnknownAuthorityError
	var another x509.HostnameError
	switch {
	case errors.Is(err, errNoAnswer):
		return fmt.Errorf("%s does not answer: is that the address of a node, and is its kubelet running?", n.name)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is signed by no authority that this machine trusts: name its authority with --certificate-authority (%w)", n.name, err)
	case errors.As(err, &another):
		return fmt.Errorf("the certificate of %s does not have that name: give the one that it has, which mostly is the name of the node (%w)", n.name, err)
	}
	return fmt.Errorf("reach %s: %w", n.name, err)
}

// explainEnd returns an error that says why a stream has ended early.
func (n *RemoteNode) explainEnd(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the %s from %s broke off: %w: try again", what, n.name, err)
}
