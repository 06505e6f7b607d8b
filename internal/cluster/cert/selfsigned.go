package cert

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"berth/internal/lib/logonce"
	"berth/internal/lib/statefile"
)

const (
	// nameCheckInterval is the shortest time between two checks of the names of the node.
	nameCheckInterval = time.Minute
	// renewBefore is how long before its expiry a self-signed pair is replaced.
	renewBefore   = 30 * 24 * time.Hour
	selfSignedTTL = 365 * 24 * time.Hour
	// clockSkew is how far the clocks of clients may be behind.
	clockSkew = time.Hour
)

// selfSigned is a self-signed serving certificate. It is checked when a client connects, so no
// goroutine is needed.
type selfSigned struct {
	node      string
	path      string // without .crt and .key
	addresses func() []v1.NodeAddress
	saved     *statefile.Entry
	log       *slog.Logger

	fileMu    sync.Mutex
	cert, key []byte // content of the files, once a pair was made

	mu      sync.Mutex
	pair    *tls.Certificate
	checked time.Time
	streak  logonce.Streak // of renewals that failed
}

func newSelfSigned(c ServingConfig) (*selfSigned, error) {
	s := &selfSigned{node: c.Node, path: filepath.Join(c.CertDir, selfSignedName), addresses: c.Addresses, log: c.Log}
	s.saved = c.State.Entry("the serving certificate that the node made", s.write)
	// If one of the files is missing, a new pair is made: it is the first start, or the agent was killed
	// between the two writes.
	if pair, err := tls.LoadX509KeyPair(s.certFile(), s.keyFile()); err == nil {
		s.pair = &pair
	}
	if s.good() {
		return s, nil
	}
	return s, s.renew()
}

func (s *selfSigned) certFile() string { return s.path + ".crt" }

func (s *selfSigned) keyFile() string { return s.path + ".key" }

func (s *selfSigned) run(ctx context.Context) { <-ctx.Done() }

func (s *selfSigned) certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.checked) < nameCheckInterval || s.good() {
		return s.pair, nil
	}
	err := s.renew()
	switch {
	case err == nil:
		s.streak.Recovered()
	case s.streak.Failed(time.Now()):
		s.log.Warn("the node can't make a new serving certificate; the one before stays", "err", err)
	}
	return s.pair, nil
}

// good reports whether the pair has the present names and does not expire soon.
func (s *selfSigned) good() bool {
	s.checked = time.Now()
	leaf, err := leafOf(s.pair)
	return err == nil && s.checked.Before(leaf.NotAfter.Add(-renewBefore)) && s.names().in(leaf)
}

func (s *selfSigned) names() names {
	return namesOf(slices.Concat(s.addresses(), []v1.NodeAddress{{Type: v1.NodeHostName, Address: s.node}}))
}

// renew makes a new pair, and saves it as soon as the disk can be written. An agent that is
// restarted before that makes another pair.
func (s *selfSigned) renew() error {
	cert, key, err := signOwn(s.node, s.names(), time.Now())
	if err != nil {
		return fmt.Errorf("make a serving certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("make a serving certificate: %w", err)
	}
	s.pair = &pair
	s.log.Info("the node made a serving certificate of its own", "file", s.certFile(), "until", pair.Leaf.NotAfter)
	s.fileMu.Lock()
	s.cert, s.key = cert, key
	s.fileMu.Unlock()
	if err := s.saved.Save(); err != nil && !statefile.CantWrite(err) { // statefile retries
		return fmt.Errorf("keep the serving certificate: %w", err)
	}
	return nil
}

// write writes both files. The key is written first: a kill before the certificate leaves two files
// that do not match, which the next start notices.
func (s *selfSigned) write() error {
	s.fileMu.Lock()
	cert, key := s.cert, s.key
	s.fileMu.Unlock()
	if err := writeFile(s.keyFile(), key, 0o600); err != nil {
		return err
	}
	return writeFile(s.certFile(), cert, 0o644)
}

// signOwn makes a self-signed pair. The function of client-go makes two large RSA keys, which takes
// a small machine a second.
func signOwn(node string, n names, now time.Time) (cert, key []byte, err error) {
	if key, err = keyutil.MakeEllipticPrivateKeyPEM(); err != nil {
		return nil, nil, err
	}
	parsed, err := parseKey("", key)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: node},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(selfSignedTTL),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              n.hosts,
		IPAddresses:           n.addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, parsed.signer.Public(), parsed.signer)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der}), key, nil
}
