package podcert

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"berth/internal/lib/pod"
)

// server is an API server with PodCertificateRequests.
type server struct {
	mu        sync.Mutex
	requests  map[string]*certificatesv1beta1.PodCertificateRequest // by name
	made      []string                                              // names in the order of creation
	watches   map[*watch.FakeWatcher]bool
	lists     int
	fails     error                                            // of all calls
	onCreated func(*certificatesv1beta1.PodCertificateRequest) // the signer; nil: it does nothing
}

func (s *server) Create(_ context.Context, r *certificatesv1beta1.PodCertificateRequest) error {
	s.mu.Lock()
	if s.fails != nil {
		defer s.mu.Unlock()
		return s.fails
	}
	s.requests[r.Name] = r.DeepCopy()
	s.made = append(s.made, r.Name)
	s.send(watch.Added, r)
	s.mu.Unlock()
	if s.onCreated != nil {
		s.onCreated(r.DeepCopy())
	}
	return nil
}

func (s *server) List(_ context.Context, o metav1.ListOptions) (*certificatesv1beta1.PodCertificateRequestList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if s.fails != nil {
		return nil, s.fails
	}
	if o.FieldSelector != "spec.nodeName=box" {
		return nil, apierrors.NewForbidden(resourceOf(), "", nil)
	}
	out := &certificatesv1beta1.PodCertificateRequestList{}
	for _, r := range s.requests {
		out.Items = append(out.Items, *r.DeepCopy())
	}
	return out, nil
}

func (s *server) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return nil, s.fails
	}
	if o.FieldSelector != "spec.nodeName=box" {
		return nil, apierrors.NewForbidden(resourceOf(), "", nil)
	}
	w := watch.NewFakeWithChanSize(100, false)
	s.watches[w] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, w)
	})
	return w, nil
}

// send sends an event to all watches. The lock is held.
func (s *server) send(kind watch.EventType, r *certificatesv1beta1.PodCertificateRequest) {
	for w := range s.watches {
		w.Action(kind, r.DeepCopy())
	}
}

// setStatus sets the status of the newest request.
func (s *server) setStatus(status certificatesv1beta1.PodCertificateRequestStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests[s.made[len(s.made)-1]]
	r.Status = status
	s.send(watch.Modified, r)
}

// remove deletes the newest request.
func (s *server) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests[s.made[len(s.made)-1]]
	delete(s.requests, r.Name)
	s.send(watch.Deleted, r)
}

func (s *server) newest() *certificatesv1beta1.PodCertificateRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[s.made[len(s.made)-1]].DeepCopy()
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.made)
}

func (s *server) setFailure(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *server) isWatched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches) > 0
}

// issuedStatus returns the status of a request whose certificate is good for a day, and is to be
// refreshed after an hour.
func issuedStatus(t *testing.T, r *certificatesv1beta1.PodCertificateRequest) certificatesv1beta1.PodCertificateRequestStatus {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	proof, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil || proof.CheckSignature() != nil {
		t.Fatal("the request proves nothing", err)
	}
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(now.Unix()), NotBefore: now, NotAfter: now.Add(24 * time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, leaf, proof.PublicKey, authority)
	if err != nil {
		t.Fatal(err)
	}
	text := append([]byte("of the signer\n"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw, Headers: map[string]string{"By": "me"}})...)
	return certificatesv1beta1.PodCertificateRequestStatus{
		Conditions:       []metav1.Condition{{Type: certificatesv1beta1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue}},
		CertificateChain: string(text),
		NotBefore:        &metav1.Time{Time: leaf.NotBefore}, NotAfter: &metav1.Time{Time: leaf.NotAfter},
		BeginRefreshAt: &metav1.Time{Time: now.Add(time.Hour)},
	}
}

func refusedStatus(kind, reason, message string) certificatesv1beta1.PodCertificateRequestStatus {
	return certificatesv1beta1.PodCertificateRequestStatus{Conditions: []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}}}
}

func resourceOf() schema.GroupResource {
	return certificatesv1beta1.Resource("podcertificaterequests")
}

// node is a Manager that runs until the test ends.
type node struct {
	t *testing.T
	*server
	*Manager
	log *bytes.Buffer

	mu       sync.Mutex
	enqueued []pod.UID
	events   []string
}

// start runs a Manager with an API server in a bubble of synctest.
func start(t *testing.T) *node {
	t.Helper()
	n := &node{
		t: t, log: &bytes.Buffer{},
		server: &server{requests: map[string]*certificatesv1beta1.PodCertificateRequest{}, watches: map[*watch.FakeWatcher]bool{}},
	}
	m, err := New(Config{
		Node:     func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: "n-1"}} },
		NodeName: "box", Requests: n.server,
		ServiceAccount: func(_ context.Context, p *v1.Pod, name string) (*v1.ServiceAccount, error) {
			return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, UID: types.UID("uid of " + name)}}, nil
		},
		Enqueue: func(_ context.Context, uid pod.UID) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.enqueued = append(n.enqueued, uid)
		},
		Warn: func(p *v1.Pod, reason, message string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, p.Name+" "+reason+": "+message)
		},
		Log: slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Manager = m
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return n
}

// news returns the pods that were enqueued, and the events, since the last call.
func (n *node) news() (enqueued []pod.UID, events []string) {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	enqueued, events = n.enqueued, n.events
	n.enqueued, n.events = nil, nil
	return enqueued, events
}

func testPod() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"}, Spec: v1.PodSpec{ServiceAccountName: "robot"}}
}

func projection() *v1.PodCertificateProjection {
	return &v1.PodCertificateProjection{
		SignerName: "example.com/signer", KeyType: "ED25519", MaxExpirationSeconds: new(int32(86400)), UserAnnotations: map[string]string{"example.com/for": "tests"},
	}
}

func nothingStored() (key, chain []byte) { return nil, nil }

// certificate asks for the certificate of the pod.
func (n *node) certificate() (key, chain []byte, again time.Time, err error) {
	return n.Certificate(n.t.Context(), testPod(), "vol", 0, projection(), nothingStored)
}

// mustHave returns the key and the chain, which have to belong together.
func (n *node) mustHave() (key, chain []byte, again time.Time) {
	n.t.Helper()
	key, chain, again, err := n.certificate()
	if err != nil {
		n.t.Fatal(err)
	}
	if _, _, err := checkChain(key, chain); err != nil {
		n.t.Fatal(err)
	}
	return key, chain, again
}

func (n *node) mustHaveState(want string) {
	n.t.Helper()
	if got := n.States(); len(got) != 1 || got[State{"example.com/signer", want}] != 1 {
		n.t.Errorf("the states are %v, want %s", got, want)
	}
}

func accountOf() *v1.ServiceAccount {
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", UID: "a-1"}}
}

func nodeOf() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: "n-1"}} }
