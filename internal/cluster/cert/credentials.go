package cert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
)

// Credentials authenticate a node to the API server of its cluster.
type Credentials struct {
	config  ClientConfig
	missing bool
	// client holds the certificate; nil until there is one, or if the kubeconfig has credentials
	// that berth neither requested nor renews.
	client atomic.Pointer[Client]
}

// NewCredentials reads the kubeconfig, and calls no server.
func NewCredentials(c ClientConfig) (*Credentials, error) {
	out := &Credentials{config: c}
	var err error
	if out.missing, err = Needed(c); err != nil || out.missing {
		return out, err
	}
	client, err := NewClient(c)
	out.client.Store(client)
	return out, err
}

// Missing reports whether the node had no certificate when it started. Run requests it while static pods run already:
// an approval may take days.
func (c *Credentials) Missing() bool { return c.missing }

// Managed reports whether berth requests or renews the certificate. If not, Run must not be called.
func (c *Credentials) Managed() bool { return c.missing || c.client.Load() != nil }

// Certificate returns the client certificate, or nil if there is none.
func (c *Credentials) Certificate() *tls.Certificate {
	if client := c.client.Load(); client != nil {
		return client.Certificate()
	}
	return nil
}

// Run requests a missing certificate, and renews it before it expires if that is configured, until ctx ends. It calls
// changed after each new certificate. It returns errors that a retry can't mend.
func (c *Credentials) Run(ctx context.Context, changed func()) error {
	if c.missing {
		if err := c.bootstrap(ctx); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		changed()
	}
	if c.config.Rotate {
		c.client.Load().Run(ctx, changed)
	}
	return nil
}

func (c *Credentials) bootstrap(ctx context.Context) error {
	if err := Bootstrap(ctx, c.config); err != nil {
		return err
	}
	// The clients of the API server were made before the kubeconfig was: they show the certificate of a Client, also if
	// it is not renewed.
	config := c.config
	config.Rotate = true
	client, err := NewClient(config)
	if err == nil && client == nil {
		err = fmt.Errorf("the certificate that the cluster signed is not that of node %s", c.config.Node)
	}
	c.client.Store(client)
	return err
}
