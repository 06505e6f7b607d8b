package cert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"

	"berth/internal/lib/statefile"
)

// ServingConfig says where the serving certificate of a node comes from: from CertFile and KeyFile,
// or else from the cluster if Bootstrap is set, or else it is self-signed.
type ServingConfig struct {
	Node    string
	CertDir string // for requested and self-signed certificates

	CertFile, KeyFile string

	// State writes a self-signed certificate. Required for one.
	State *statefile.Keeper

	Bootstrap bool
	CSRs      certificatesv1.CertificatesV1Interface // needed for Bootstrap

	// Addresses returns the addresses of the node, as the API server has them. It is called about
	// once a second, and must make no request. Empty: they are not known yet.
	Addresses func() []v1.NodeAddress
	// Failed is called for each failed attempt to get a certificate from the cluster. May be nil.
	Failed func()
	// Rotated is called with the age of a certificate of the cluster when a new one has taken its place. May be nil.
	Rotated func(age time.Duration)
	Log     *slog.Logger
}

// Serving is the certificate with which a node serves its API.
type Serving struct {
	from interface {
		certificate() (*tls.Certificate, error)
		run(ctx context.Context)
	}
}

// NewServing returns the serving certificate. Files are read, and a self-signed pair is made,
// before it returns; a certificate of the cluster is requested while Run runs.
func NewServing(c ServingConfig) (*Serving, error) {
	fromFiles := c.CertFile != "" || c.KeyFile != ""
	switch {
	case c.Node == "" || c.Log == nil || c.Addresses == nil:
		return nil, errors.New("serving certificate: Node, Addresses and Log are needed")
	case fromFiles && (c.CertFile == "" || c.KeyFile == ""):
		return nil, fmt.Errorf("serving certificate: tlsCertFile (%q) and tlsPrivateKeyFile (%q) are only of use together", c.CertFile, c.KeyFile)
	case !fromFiles && c.CertDir == "":
		return nil, errors.New("serving certificate: CertDir is needed")
	case !fromFiles && !c.Bootstrap && c.State == nil:
		return nil, errors.New("serving certificate: State is needed")
	case !fromFiles && c.Bootstrap && c.CSRs == nil:
		return nil, errors.New("serving certificate: the cluster is to be asked for one, and there is no cluster")
	}
	var (
		s   Serving
		err error
	)
	switch {
	case fromFiles:
		s.from, err = newFiles(c)
	case c.Bootstrap:
		s.from, err = newSigned(c)
	default:
		s.from, err = newSelfSigned(c)
	}
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// Run renews the certificate until the context ends.
func (s *Serving) Run(ctx context.Context) { s.from.run(ctx) }

// GetCertificate implements tls.Config.GetCertificate: each new connection gets the newest
// certificate.
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.from.certificate()
}
