package cert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	certificates "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"

	"berth/internal/cluster/kubeclient"
	"berth/internal/lib/run"
)

// errNoCredentials says that the node has no credentials to request a certificate with.
var errNoCredentials = errors.New("the client certificate has expired, and there is no bootstrap kubeconfig: put a new kubeconfig in place and start again")

// Client is the client certificate of a node, renewed while Run runs.
type Client struct {
	config  ClientConfig
	renewal *renewal
	current atomic.Pointer[tls.Certificate]
	changed chan struct{} // capacity 1: current was replaced
}

// requestClient returns the client that requests a new certificate. current is the certificate that it
// authenticates with, or nil if that has expired.
type requestClient func(current *tls.Certificate) (certificatesv1.CertificatesV1Interface, error)

// NewClient returns the client certificate of the kubeconfig. It returns nil if the certificate is
// not to be renewed: Rotate is off, or the kubeconfig has no certificate or that of another user.
func NewClient(c ClientConfig) (*Client, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if !c.Rotate {
		return nil, nil
	}
	config, err := kubeclient.Load(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if !hasCertificate(config.TLSClientConfig) {
		c.Log.Info("the kubeconfig has no client certificate, so there is none to renew", "kubeconfig", c.Kubeconfig)
		return nil, nil
	}
	return newClient(c, config.TLSClientConfig, c.requestClient())
}

func newClient(c ClientConfig, files rest.TLSClientConfig, ask requestClient) (*Client, error) {
	out := &Client{config: c, changed: make(chan struct{}, 1)}
	r := &report{what: "client certificate", log: c.Log, onFailure: c.Failed}
	given, unreadable := pairOf(files)
	s, err := newStore(c.CertDir, clientName, given, r, out.update)
	if err != nil {
		return nil, err
	}
	pair, err := s.Current()
	if err != nil {
		return nil, fmt.Errorf("read the client certificate of kubeconfig %s: %w", c.Kubeconfig, errors.Join(unreadable, err))
	}
	leaf, err := leafOf(pair)
	if err != nil {
		return nil, fmt.Errorf("read the client certificate of kubeconfig %s: %w", c.Kubeconfig, err)
	}
	if leaf.Subject.CommonName != nodeUser(c.Node) {
		c.Log.Info("the client certificate is not that of this node, and is not renewed", "kubeconfig", c.Kubeconfig, "for", leaf.Subject.CommonName)
		return nil, nil
	}
	out.current.Store(pair)
	out.renewal, err = newRenewal(certificate.Config{
		ClientsetFn: func(current *tls.Certificate) (kubernetes.Interface, error) {
			api, err := ask(current)
			return requests{group: api, report: r}, err
		},
		Template:   &x509.CertificateRequest{Subject: subject(c.Node)},
		SignerName: certificates.KubeAPIServerClientKubeletSignerName,
		GetUsages:  certificate.DefaultKubeletClientGetUsages,
	}, s)
	return out, err
}

// Certificate returns the client certificate for the API server. It may have expired: the error of
// the server then says so, which is clearer than that of an anonymous request.
func (c *Client) Certificate() *tls.Certificate { return c.current.Load() }

// Run renews the certificate until the context ends. It calls changed after each new certificate:
// open connections still use the one before.
func (c *Client) Run(ctx context.Context, changed func()) {
	group := run.NewGroup(ctx, c.config.Log)
	defer group.Stop()
	group.Go("renewal of the client certificate", c.renewal.run)
	for {
		select {
		case <-c.changed:
			changed()
		case <-ctx.Done():
			return
		}
	}
}

// update replaces the current pair by a new one of the store.
func (c *Client) update(pair *tls.Certificate) {
	c.current.Store(pair)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// requestClient returns a client with the identity of the node, or with the bootstrap credentials if the
// certificate has expired.
func (c ClientConfig) requestClient() requestClient {
	warnOnce := sync.OnceFunc(func() {
		c.Log.Warn("the client certificate has expired; asking for another one as a new node does", "with", c.BootstrapKubeconfig)
	})
	return func(current *tls.Certificate) (certificatesv1.CertificatesV1Interface, error) {
		var (
			clients *kubeclient.Clients
			err     error
		)
		switch {
		case current != nil:
			clients, err = kubeclient.New(kubeclient.Config{
				Kubeconfig: c.Kubeconfig, UserAgent: c.UserAgent,
				ClientCertificate: func() *tls.Certificate { return current },
			})
		case c.BootstrapKubeconfig == "":
			err = errNoCredentials
		default:
			warnOnce()
			clients, err = c.bootstrapClients()
		}
		if err != nil {
			return nil, err
		}
		return clients.General.CertificatesV1(), nil
	}
}
