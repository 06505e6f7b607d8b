package nodeapi

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
)

// clientCA authenticates clients by their certificates. The file with the CAs is checked for
// changes when it is needed, at most once a second. A file that can't be used changes nothing:
// the CAs from before stay.
type clientCA struct {
	path string
	log  *slog.Logger

	mu            sync.Mutex
	pool          *x509.CertPool
	read          os.FileInfo // of the file from which pool was read
	checkedAt     time.Time
	failureLogged bool // the file can't be used at present, which was logged
}

// fileCheckInterval is the shortest time between two checks whether the file has changed.
const fileCheckInterval = time.Second

func newClientCA(path string, log *slog.Logger) (*clientCA, error) {
	c := &clientCA{path: path, log: log}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("authentication.x509.clientCAFile: %w", err)
	}
	return c, nil
}

func (c *clientCA) load() error {
	info, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	pool, err := cert.NewPool(c.path)
	if err != nil {
		return err
	}
	c.pool, c.read = pool, info
	return nil
}

// authorities returns the present CAs.
func (c *clientCA) authorities() *x509.CertPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.checkedAt) < fileCheckInterval {
		return c.pool
	}
	c.checkedAt = now
	info, err := os.Stat(c.path)
	if err == nil && os.SameFile(info, c.read) && info.ModTime().Equal(c.read.ModTime()) && info.Size() == c.read.Size() {
		return c.pool
	}
	if err == nil {
		err = c.load()
	}
	switch {
	case err == nil:
		c.failureLogged = false
		c.log.Info("the authorities of clients have changed", "file", c.path)
	case !c.failureLogged:
		c.failureLogged = true
		c.log.Warn("the authorities of clients can't be read again: those from before stay", "file", c.path, "err", err)
	}
	return c.pool
}

// user returns the user of a certificate chain, whose first certificate is the client's own.
func (c *clientCA) user(chain []*x509.Certificate) (user, error) {
	own := chain[0]
	intermediates := x509.NewCertPool()
	for _, other := range chain[1:] {
		intermediates.AddCert(other)
	}
	_, err := own.Verify(x509.VerifyOptions{
		Roots: c.authorities(), Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return user{}, fmt.Errorf("the client's certificate is not good: %w", err)
	}
	if own.Subject.CommonName == "" {
		return user{}, errors.New("the client's certificate has no common name")
	}
	return user{Name: own.Subject.CommonName, Groups: append(append([]string{}, own.Subject.Organization...), groupAuthenticated)}, nil
}
