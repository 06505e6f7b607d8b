package cert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	certificates "k8s.io/api/certificates/v1"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/klog/v2"

	"berth/internal/cluster/kubeclient"
	"berth/internal/lib/backoff"
	"berth/internal/lib/run"
)

// retryPause is the pause after a failed attempt to get a certificate.
var retryPause = backoff.Exponential{First: time.Second, Max: 30 * time.Second}

const (
	// deniedInterval is the pause after a request that was denied. It is long, because an
	// administrator denied it, and the next attempt creates another request.
	deniedInterval = 5 * time.Minute
	// approvalTimeout is how long an attempt waits for the approval of its request. The next attempt
	// reads the bootstrap kubeconfig again, whose token may have expired, and finds the request, or
	// creates it if it was removed.
	approvalTimeout = 2 * time.Minute
)

// ClientConfig configures the client certificate of a node: the name of the node, and the paths of
// its credentials.
type ClientConfig struct {
	Node    string
	CertDir string // for keys and certificates

	Kubeconfig          string
	BootstrapKubeconfig string // credentials to request the first certificate with; empty: there are none

	Rotate    bool // renew the certificate before it expires
	UserAgent string
	Failed    func() // called for each failed attempt to get a certificate; may be nil
	Log       *slog.Logger
}

func (c ClientConfig) check() error {
	var err error
	for what, value := range map[string]string{"Node": c.Node, "CertDir": c.CertDir, "Kubeconfig": c.Kubeconfig, "UserAgent": c.UserAgent} {
		if value == "" {
			err = errors.Join(err, fmt.Errorf("client certificate: %s is needed", what))
		}
	}
	if c.Log == nil {
		err = errors.Join(err, errors.New("client certificate: Log is needed"))
	}
	return err
}

// Needed reports whether Bootstrap has to request a certificate.
func Needed(c ClientConfig) (bool, error) {
	if err := c.check(); err != nil || c.BootstrapKubeconfig == "" {
		return false, err
	}
	done, err := usable(c.Kubeconfig, time.Now())
	return !done && err == nil, err
}

// Bootstrap makes the kubeconfig usable. It returns at once if it is, or without a bootstrap
// kubeconfig. Otherwise it requests a certificate from the cluster, and returns when there is one,
// the context ends, or a file of this machine can't be used.
//
// It waits without a limit. There is one key and one request, also if the agent is killed and starts
// again, and the log says which approval is missing.
func Bootstrap(ctx context.Context, c ClientConfig) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.BootstrapKubeconfig == "" {
		return nil
	}
	done, err := usable(c.Kubeconfig, time.Now())
	if err != nil {
		return err
	}
	if done {
		return (&pendingKey{path: pendingKeyPath(c.CertDir)}).drop() // left by an agent that was killed after its last step
	}
	clients, err := c.bootstrapClients()
	if err != nil {
		return err
	}
	c.Log.Info("the node asks for a client certificate", "kubeconfig", c.Kubeconfig, "with", c.BootstrapKubeconfig, "server", clients.Server)
	return c.bootstrap(ctx, func() (certificatesv1.CertificatesV1Interface, error) {
		clients, err := c.bootstrapClients()
		if err != nil {
			return nil, err
		}
		return clients.General.CertificatesV1(), nil
	})
}

// bootstrapClients returns clients with the credentials of the bootstrap kubeconfig, which may
// only request a certificate.
func (c ClientConfig) bootstrapClients() (*kubeclient.Clients, error) {
	clients, err := kubeclient.New(kubeclient.Config{Kubeconfig: c.BootstrapKubeconfig, UserAgent: c.UserAgent})
	if err != nil {
		return nil, fmt.Errorf("ask for a client certificate: %w", err)
	}
	return clients, nil
}

// connector returns the client for one attempt. It is called for each: the token in a bootstrap
// kubeconfig may expire while the API server does not answer, and be replaced.
type connector func() (certificatesv1.CertificatesV1Interface, error)

func (c ClientConfig) bootstrap(ctx context.Context, connect connector) error {
	r := &report{what: "client certificate", log: c.Log, onFailure: c.Failed}
	defer r.close()
	s, err := newStore(c.CertDir, clientName, nil, r, func(*tls.Certificate) {})
	if err != nil {
		return err
	}
	key, err := c.obtain(ctx, s, connect, r)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(s.CurrentPath())
	if err != nil {
		return err
	}
	if err := writeKubeconfig(c.Kubeconfig, c.BootstrapKubeconfig, path); err != nil {
		return err
	}
	return key.drop()
}

// obtain returns the key of the certificate once the store has it. The file of the pending key is
// left to the caller.
func (c ClientConfig) obtain(ctx context.Context, s *store, connect connector, log *report) (*pendingKey, error) {
	for pause := retryPause.Next(0); ; pause = retryPause.Next(pause) {
		key, err := openPendingKey(c.CertDir)
		if err != nil {
			return nil, err
		}
		if pair, _ := s.Current(); key.of(pair) && !expired(pair, time.Now()) {
			return key, nil // the agent was killed just after it was issued
		}
		var text []byte
		api, err := connect()
		if err == nil {
			text, err = request(ctx, requests{group: api, report: log}, c.Node, key)
		}
		if err == nil {
			_, err = s.Update(text, key.pem)
			return key, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		log.failed(err)
		if isFinal(err) {
			if err := key.drop(); err != nil {
				return nil, err
			}
			pause = deniedInterval
		}
		if run.Sleep(ctx, pause) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// finalError says that the API server will never grant the same request.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func isFinal(err error) bool { return errors.As(err, new(finalError)) }

// request requests a certificate for a key, and waits until it is issued.
func request(ctx context.Context, api requests, node string, key *pendingKey) ([]byte, error) {
	user := nodeUser(node)
	text, err := certutil.MakeCSRFromTemplate(key.signer, &x509.CertificateRequest{Subject: subject(node)})
	if err != nil {
		return nil, fmt.Errorf("make a certificate request for %s: %w", user, err)
	}
	// WaitForCertificate retries failed reads, and logs them through the report.
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(api.report))
	ctx, cancel := context.WithTimeout(ctx, approvalTimeout)
	defer cancel()
	name, uid, err := csr.RequestCertificateWithContext(ctx, api, text, key.requestName(user), certificates.KubeAPIServerClientKubeletSignerName, nil,
		certificate.DefaultKubeletClientGetUsages(key.signer), key.signer)
	if err != nil {
		err = fmt.Errorf("ask for a certificate for %s: %w", user, err)
		if strings.Contains(err.Error(), "not compatible") { // the library has no type for it
			err = finalError{err} // an old request of the same key, whose certificate has expired
		}
		return nil, err
	}
	api.report.requested(name)
	answer, err := csr.WaitForCertificate(ctx, api, name, uid)
	if err != nil {
		err = fmt.Errorf("wait for certificate request %s: %w", name, err)
		if ctx.Err() == nil {
			err = finalError{err} // the request was denied, failed, or was deleted
		}
		return nil, err
	}
	return answer, nil
}
