package cert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	certificates "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// errNotSigned refuses connections until the cluster has signed the certificate.
var errNotSigned = errors.New("the cluster has not given this node a serving certificate yet: see 'kubectl get csr'")

// signed is a serving certificate that is signed by the cluster. An administrator or a controller of
// the cluster has to approve the request: Kubernetes has no such controller.
type signed struct {
	*renewal
	current atomic.Pointer[tls.Certificate]
}

func newSigned(c ServingConfig) (*signed, error) {
	s := &signed{}
	r := &report{what: "serving certificate", log: c.Log, onFailure: c.Failed}
	kept, err := newStore(c.CertDir, servingName, nil, r, func(pair *tls.Certificate) {
		before := s.current.Swap(pair)
		if leaf, err := leafOf(before); err == nil && c.Rotated != nil {
			c.Rotated(time.Since(leaf.NotBefore))
		}
	})
	if err != nil {
		return nil, err
	}
	if pair, err := kept.Current(); err == nil {
		s.current.Store(pair)
	}
	s.renewal, err = newRenewal(certificate.Config{
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) {
			return requests{group: c.CSRs, report: r}, nil
		},
		GetTemplate: func() *x509.CertificateRequest { return servingRequest(c.Node, namesOf(c.Addresses())) },
		SignerName:  certificates.KubeletServingSignerName,
		GetUsages:   certificate.DefaultKubeletServingGetUsages,
	}, kept)
	if err != nil {
		return nil, fmt.Errorf("keep the serving certificate: %w", err)
	}
	return s, nil
}

// servingRequest returns the certificate request, or nil while no address of the node is known.
func servingRequest(node string, n names) *x509.CertificateRequest {
	if n.none() {
		return nil
	}
	return &x509.CertificateRequest{Subject: subject(node), DNSNames: n.hosts, IPAddresses: n.addresses}
}

// certificate returns the certificate also after its expiry: clients that check it see that.
func (s *signed) certificate() (*tls.Certificate, error) {
	if pair := s.current.Load(); pair != nil {
		return pair, nil
	}
	return nil, errNotSigned
}
