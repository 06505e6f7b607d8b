package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync/atomic"

	"berth/internal/cluster/cert"
	"berth/internal/cluster/kubeclient"
	"berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/lib/run"
)

// membership holds the credentials of this node and the clients that use them.
type membership struct {
	credentials *credentials
	clients     *kubeclient.Clients
}

// newMembership reads the kubeconfig, and calls no server. It returns nil if this node is to be in no
// cluster.
func newMembership(c *config.Config, log *slog.Logger) (*membership, error) {
	if c.Cluster.Kubeconfig == "" {
		return nil, nil
	}
	credentials, err := newCredentials(c, log)
	if err != nil {
		return nil, err
	}
	clients, err := credentials.clients(&c.Cluster)
	return &membership{credentials, clients}, err
}

// credentials authenticate this node to the API server of its cluster.
type credentials struct {
	config cert.ClientConfig
	// missing says that the node has no certificate yet. It is requested while static pods run
	// already: an approval may take days.
	missing bool
	// client renews the certificate; nil until there is one, or if the kubeconfig has credentials
	// that berth does not renew.
	client atomic.Pointer[cert.Client]
}

func newCredentials(c *config.Config, log *slog.Logger) (*credentials, error) {
	out := &credentials{config: cert.ClientConfig{
		Node: c.NodeName, CertDir: c.Cluster.CertDir, Kubeconfig: c.Cluster.Kubeconfig, BootstrapKubeconfig: c.Cluster.Bootstrap,
		Rotate: c.Cluster.Rotate, UserAgent: kubeclient.UserAgent(c.Version, node.Kubernetes), Log: log,
	}}
	var err error
	if out.missing, err = cert.Needed(out.config); err != nil || out.missing {
		return out, err
	}
	client, err := cert.NewClient(out.config)
	out.client.Store(client)
	return out, err
}

// clients makes the clients of the API server. Until there are credentials they are anonymous.
func (c *credentials) clients(settings *config.Cluster) (*kubeclient.Clients, error) {
	k := kubeclient.Config{
		Kubeconfig: settings.Kubeconfig, UserAgent: c.config.UserAgent, QPS: float32(settings.QPS), Burst: settings.Burst,
		EventQPS: float32(settings.EventQPS), EventBurst: settings.EventBurst, ContentType: settings.ContentType,
	}
	if c.missing {
		k.Kubeconfig, k.Anonymous = settings.Bootstrap, true
	}
	if c.missing || c.client.Load() != nil {
		k.ClientCertificate = c.certificate
	}
	return kubeclient.New(k)
}

func (c *credentials) certificate() *tls.Certificate {
	if client := c.client.Load(); client != nil {
		return client.Certificate()
	}
	return nil
}

// start requests a missing certificate, and renews it before it expires. fail gets errors that no
// further attempt can mend.
func (c *credentials) start(group *run.Group, clients *kubeclient.Clients, fail func(error)) {
	if !c.missing && c.client.Load() == nil {
		return
	}
	group.Go("client certificate", func(ctx context.Context) {
		if c.missing {
			if err := c.bootstrap(ctx); err != nil {
				if !errors.Is(err, context.Canceled) {
					fail(err)
				}
				return
			}
			clients.Reconnect()
		}
		c.client.Load().Run(ctx, clients.Reconnect)
	})
}

func (c *credentials) bootstrap(ctx context.Context) error {
	if err := cert.Bootstrap(ctx, c.config); err != nil {
		return err
	}
	client, err := cert.NewClient(c.config)
	c.client.Store(client)
	return err
}
