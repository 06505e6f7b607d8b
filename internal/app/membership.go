package app

import (
	"context"
	"log/slog"

	"berth/internal/cluster/cert"
	"berth/internal/cluster/kubeclient"
	"berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/lib/run"
)

// membership holds the credentials of this node and the clients that use them.
type membership struct {
	credentials *cert.Credentials
	clients     *kubeclient.Clients
}

// newMembership reads the kubeconfig, and makes no request. It returns nil without a cluster. renewFailed is called
// for each failed attempt to get a client certificate.
func newMembership(c *config.Config, renewFailed func(), log *slog.Logger) (*membership, error) {
	if c.Cluster.Kubeconfig == "" {
		return nil, nil
	}
	userAgent := kubeclient.UserAgent(c.Version, node.Kubernetes)
	credentials, err := cert.NewCredentials(cert.ClientConfig{
		Node: c.NodeName, CertDir: c.Cluster.CertDir, Kubeconfig: c.Cluster.Kubeconfig, BootstrapKubeconfig: c.Cluster.Bootstrap,
		Rotate: c.Cluster.Rotate, UserAgent: userAgent, Failed: renewFailed, Log: log,
	})
	if err != nil {
		return nil, err
	}
	clients, err := newClients(&c.Cluster, credentials, userAgent)
	return &membership{credentials, clients}, err
}

// newClients makes the clients of the API server. They are anonymous until there are credentials.
func newClients(settings *config.Cluster, credentials *cert.Credentials, userAgent string) (*kubeclient.Clients, error) {
	k := kubeclient.Config{
		Kubeconfig: settings.Kubeconfig, UserAgent: userAgent, QPS: float32(settings.QPS), Burst: settings.Burst,
		EventQPS: float32(settings.EventQPS), EventBurst: settings.EventBurst, ContentType: settings.ContentType,
	}
	if credentials.Missing() {
		k.Kubeconfig, k.Anonymous = settings.Bootstrap, true
	}
	if credentials.Managed() {
		k.ClientCertificate = credentials.Certificate
	}
	return kubeclient.New(k)
}

// start requests a missing certificate, and renews it before it expires. fail is called with errors
// that a retry can't mend.
func (m *membership) start(group *run.Group, fail func(error)) {
	if !m.credentials.Managed() {
		return
	}
	group.Go("client certificate", func(ctx context.Context) {
		if err := m.credentials.Run(ctx, m.clients.Reconnect); err != nil {
			fail(err)
		}
	})
}
