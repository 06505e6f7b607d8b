package cert

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
)

// authority is a CA that signs every request.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * 365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{cert, key}
}

func (a *authority) sign(public any, subject pkix.Name, hosts *x509.CertificateRequest, life time.Duration) ([]byte, error) {
	template := &x509.Certificate{
		Subject: subject, NotBefore: time.Now(), NotAfter: time.Now().Add(life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if hosts != nil {
		template.DNSNames, template.IPAddresses = hosts.DNSNames, hosts.IPAddresses
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// pair makes a certificate with its key.
func (a *authority) pair(t *testing.T, commonName string, life time.Duration) (cert, key []byte) {
	t.Helper()
	k := newKey(t)
	cert, err := a.sign(&k.PublicKey, pkix.Name{CommonName: commonName}, nil, life)
	must(t, err)
	der, err := x509.MarshalECPrivateKey(k)
	must(t, err)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// api is the part of an API server for CertificateSigningRequests, with the controllers that
// approve and sign them.
type api struct {
	certificatesv1.CertificatesV1Interface
	certificatesv1.CertificateSigningRequestInterface

	authority *authority
	life      time.Duration // of the certificates that are given out

	mu      sync.Mutex
	away    error  // nothing else is answered
	policy  string // approve, deny or wait
	objects map[string]*certificates.CertificateSigningRequest
	made    int
	version int
	watches []chan watch.Event
}

func newAPI(t *testing.T, policy string, life time.Duration) *api {
	return &api{authority: newAuthority(t), life: life, policy: policy, objects: map[string]*certificates.CertificateSigningRequest{}}
}

func (a *api) connect() (certificatesv1.CertificatesV1Interface, error) { return a, nil }

func (a *api) CertificateSigningRequests() certificatesv1.CertificateSigningRequestInterface {
	return a
}

func (a *api) Create(_ context.Context, r *certificates.CertificateSigningRequest, _ metav1.CreateOptions) (*certificates.CertificateSigningRequest, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away != nil {
		return nil, a.away
	}
	r = r.DeepCopy()
	if r.Name == "" {
		r.Name = fmt.Sprintf("%s%d", r.GenerateName, a.made)
	}
	if a.objects[r.Name] != nil {
		return nil, apierrors.NewAlreadyExists(certificates.Resource("certificatesigningrequests"), r.Name)
	}
	a.made++
	r.UID = types.UID(fmt.Sprint("uid-", a.made))
	a.put(r)
	a.decide(r.Name)
	return r, nil
}

// put stores a request. The caller holds the lock, as for the methods below.
func (a *api) put(r *certificates.CertificateSigningRequest) {
	a.version++
	r.ResourceVersion = fmt.Sprint(a.version)
	kind := watch.Modified
	if a.objects[r.Name] == nil {
		kind = watch.Added
	}
	a.objects[r.Name] = r
	for _, w := range a.watches {
		w <- watch.Event{Type: kind, Object: r.DeepCopy()}
	}
}

func (a *api) decide(name string) {
	r := a.objects[name].DeepCopy()
	switch a.policy {
	case "wait":
		return
	case "deny":
		r.Status.Conditions = []certificates.CertificateSigningRequestCondition{{Type: certificates.CertificateDenied, Reason: "Policy", Message: "not you"}}
	case "approve":
		block, _ := pem.Decode(r.Spec.Request)
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			panic(err)
		}
		r.Status.Conditions = []certificates.CertificateSigningRequestCondition{{Type: certificates.CertificateApproved}}
		if r.Status.Certificate, err = a.authority.sign(parsed.PublicKey, parsed.Subject, parsed, a.life); err != nil {
			panic(err)
		}
	}
	a.put(r)
}

// set changes the policy by which requests are answered, also for pending ones.
func (a *api) set(policy string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.policy = policy
	for name, r := range a.objects {
		if len(r.Status.Conditions) == 0 {
			a.decide(name)
		}
	}
}

func (a *api) setAway(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = err
}

func (a *api) requested() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made
}

// newest is the last request that was made.
func (a *api) newest() *certificates.CertificateSigningRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.objects {
		if r.UID == types.UID(fmt.Sprint("uid-", a.made)) {
			return r
		}
	}
	return nil
}

func (a *api) Get(_ context.Context, name string, _ metav1.GetOptions) (*certificates.CertificateSigningRequest, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.objects[name]
	if r == nil || a.away != nil {
		return nil, apierrors.NewNotFound(certificates.Resource("certificatesigningrequests"), name)
	}
	return r.DeepCopy(), nil
}

func named(r *certificates.CertificateSigningRequest, o metav1.ListOptions) bool {
	return o.FieldSelector == "metadata.name="+r.Name
}

func (a *api) List(_ context.Context, o metav1.ListOptions) (*certificates.CertificateSigningRequestList, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away != nil {
		return nil, a.away
	}
	list := &certificates.CertificateSigningRequestList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(a.version)}}
	for _, r := range a.objects {
		if named(r, o) {
			list.Items = append(list.Items, *r.DeepCopy())
		}
	}
	return list, nil
}

func (a *api) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away != nil {
		return nil, a.away
	}
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		return nil, apierrors.NewInvalid(certificates.Kind("CertificateSigningRequest"), "", nil) // as servers do that can't
	}
	events := make(chan watch.Event, 100)
	a.watches = append(a.watches, events)
	filtered := watch.Filter(watch.NewProxyWatcher(events), func(e watch.Event) (watch.Event, bool) {
		r, ok := e.Object.(*certificates.CertificateSigningRequest)
		return e, ok && named(r, o)
	})
	return closing{filtered, events, a}, nil
}

// closing ends its source, too.
type closing struct {
	watch.Interface
	events chan watch.Event
	from   *api
}

func (c closing) Stop() {
	c.from.mu.Lock()
	defer c.from.mu.Unlock()
	for i, w := range c.from.watches {
		if w == c.events {
			c.from.watches = append(c.from.watches[:i:i], c.from.watches[i+1:]...)
			close(w)
			break
		}
	}
	c.Interface.Stop()
}

// logged is a log in memory.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func (l *logged) lines() int { return l.count("\n") }

func newLog(t *testing.T) (*slog.Logger, *logged) {
	l := &logged{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", l.text.String())
		}
	})
	return slog.New(slog.NewTextHandler(l, nil)), l
}

// write puts a file below a folder.
func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, data, 0o600))
	return path
}

// mode returns the mode of a file, following links.
func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode().Perm()
}
