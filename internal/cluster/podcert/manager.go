// Package podcert gets certificates for pods: the credentials of podCertificate sources of projected
// volumes.
//
// For each source, the Manager makes a private key, and a PodCertificateRequest that proves the
// possession of the key. A signer of the cluster issues a certificate, or refuses. A certificate is
// replaced, with its key, from the time on that the signer has set.
//
// What always holds:
//   - A private key is held in memory, is returned to the volume, and goes nowhere else: not into a request, an
//     error or a log.
//   - A source has one request at a time. Requests that could not be made are repeated with growing pauses.
//   - A refusal is final for the pod, as with a kubelet: signers decide on what a pod is, which does not change.
//   - The requests of this node are watched while one of them is undecided, and not otherwise.
//
// Only the Manager writes to its table of certificates.
package podcert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// Config is checked by New.
type Config struct {
	Node     func() *v1.Node // as the cluster has it; nil: not yet
	NodeName string
	Requests Requests
	// ServiceAccount returns a service account of the pod's namespace.
	ServiceAccount func(ctx context.Context, p *v1.Pod, name string) (*v1.ServiceAccount, error)
	// Enqueue asks for a sync of a pod whose certificate was issued or refused.
	Enqueue func(context.Context, pod.UID)
	// Warn records a warning event of a pod.
	Warn func(p *v1.Pod, reason, message string)
	Log  *slog.Logger
}

// Manager gets the certificates of pods. It may be used from several goroutines; calls for one pod run
// one after the other.
type Manager struct {
	Config
	changed chan struct{} // capacity 1: a request was begun, or a pod was forgotten

	mu           sync.Mutex
	certificates map[source]*certificate
	requests     map[requestName]source // the undecided ones
}

// New checks the configuration. No request is made before Certificate is called.
func New(c Config) (*Manager, error) {
	if c.Node == nil || c.NodeName == "" || c.Requests == nil || c.ServiceAccount == nil || c.Enqueue == nil || c.Warn == nil || c.Log == nil {
		return nil, errors.New("podcert: node, its name, requests, service accounts, enqueue, warn and log are required")
	}
	return &Manager{Config: c, changed: make(chan struct{}, 1), certificates: map[source]*certificate{}, requests: map[requestName]source{}}, nil
}

// requestPause is the pause after a request that could not be made, or that was deleted undecided.
var requestPause = backoff.Exponential{First: time.Second, Max: 5 * time.Minute}

const (
	// requestTimeout is how long the API server may take to accept a request.
	requestTimeout = 10 * time.Second
	// signerTimeout is how long the first certificate of a source is waited for. A signer that is quicker
	// does not make the pod wait for its next sync.
	signerTimeout = 3 * time.Second
	// checkInterval is the time after which a source with an undecided request is looked at again, even if
	// no watch reports anything.
	checkInterval = time.Minute
)

// Certificate returns the private key and the certificate chain of a source, in PEM, and when to call
// again even if nothing is enqueued. index is the place of the source in its volume. Without a
// certificate, the error says what it waits for, or why it was refused.
//
// stored returns the credentials that an earlier agent has left in the volume, if there are any: they are
// used until they are replaced.
func (m *Manager) Certificate(
	ctx context.Context, p *v1.Pod, volume string, index int, s *v1.PodCertificateProjection, stored func() (key, chain []byte),
) (key, chain []byte, again time.Time, err error) {
	c, known := m.certificateOf(source{p.UID, volume, index}, p, s.SignerName)
	if !known {
		m.adopt(c, stored)
	}
	if m.needsRequest(c) {
		m.request(ctx, c, s)
	}
	m.awaitSigner(ctx, c)
	return m.answer(c)
}

// certificateOf returns the certificate of a source, and whether it was known before.
func (m *Manager) certificateOf(of source, p *v1.Pod, signer string) (*certificate, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, known := m.certificates[of]
	if !known {
		c = &certificate{of: of, signer: signer}
		m.certificates[of] = c
	}
	c.pod = p
	return c, known
}

// maxAdoptedJitter bounds the time until credentials of an earlier agent are replaced, so that not all
// pods of a node ask at the same moment.
const maxAdoptedJitter = 10 * time.Second

// adopt takes over the credentials of an earlier agent. They are replaced soon, since the time that the
// signer has set for it is not known.
func (m *Manager) adopt(c *certificate, stored func() (key, chain []byte)) {
	key, chain := stored()
	leaf, chain, err := checkChain(key, chain)
	now := time.Now()
	if err != nil || now.After(leaf.NotAfter) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.held = &credentials{key: key, chain: chain, refreshAt: now.Add(rand.N(maxAdoptedJitter)), notAfter: leaf.NotAfter}
}

func (m *Manager) needsRequest(c *certificate) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.needsRequest(time.Now())
}

// request makes a request for a certificate. A failure is kept in the certificate.
func (m *Manager) request(ctx context.Context, c *certificate, s *v1.PodCertificateProjection) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := m.tryRequest(ctx, c, s)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		m.endRequest(c)
		c.fail(err, time.Now())
		if c.held != nil && c.streak.Failed(time.Now()) {
			m.Log.Warn("the certificate of a pod can't be refreshed; the old one is used", "pod", pod.Ref(c.pod), "volume", c.of.volume, "until", c.held.notAfter, "err", err)
		}
	case c.streak.Recovered():
		m.Log.Info("a new certificate of a pod could be requested at last", "pod", pod.Ref(c.pod), "volume", c.of.volume)
	}
}

func (m *Manager) tryRequest(ctx context.Context, c *certificate, s *v1.PodCertificateProjection) error {
	node := m.Node()
	if node == nil || node.UID == "" {
		return errors.New("the cluster has no Node of this machine yet")
	}
	name := c.pod.Spec.ServiceAccountName
	if name == "" {
		name = "default"
	}
	account, err := m.ServiceAccount(ctx, c.pod, name)
	if err != nil {
		return fmt.Errorf("get its service account: %w", err)
	}
	key, proof, err := newKey(s.KeyType)
	if err != nil {
		return err
	}
	r := newRequest(c.pod, s, account, node, proof)
	m.beginRequest(c, r.Namespace, r.Name, key)
	if err := m.Requests.Create(ctx, r); err != nil {
		return explainRefusal(ctx, m.Requests, m.NodeName, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.request != nil { // else it is decided on already
		c.request.created = time.Now()
	}
	return nil
}

// beginRequest records a request before it is made, so that the watch knows it when it is decided on.
func (m *Manager) beginRequest(c *certificate, namespace, name string, key []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.request = &request{name: requestName{namespace, name}, key: key, decided: make(chan struct{})}
	m.requests[c.request.name] = c.of
	m.signalChange()
}

// endRequest forgets the request of a certificate. The lock is held.
func (m *Manager) endRequest(c *certificate) {
	if c.request == nil {
		return
	}
	delete(m.requests, c.request.name)
	close(c.request.decided)
	c.request = nil
}

// awaitSigner waits for the first certificate of a source, for a moment. It does not wait if another
// source of the pod was waited for in vain: a sync has to end.
func (m *Manager) awaitSigner(ctx context.Context, c *certificate) {
	m.mu.Lock()
	r, wait := c.request, c.awaitsFirst()
	for of, other := range m.certificates {
		if of.pod == c.of.pod && other.awaitsFirst() && time.Since(other.request.created) >= signerTimeout {
			wait = false
		}
	}
	m.mu.Unlock()
	if !wait {
		return
	}
	select {
	case <-ctx.Done():
	case <-r.decided:
	case <-time.After(signerTimeout):
	}
}

// answer returns what is known of a certificate, and records events of one that should have been
// replaced.
func (m *Manager) answer(c *certificate) (key, chain []byte, again time.Time, err error) {
	m.mu.Lock()
	now := time.Now()
	events := c.lateEvents(now)
	again = c.nextCheck(now)
	switch {
	case c.refusal != nil:
		err = c.refusal
	case c.held != nil:
		key, chain = c.held.key, c.held.chain
	case c.request != nil:
		err = fmt.Errorf("waiting for signer %q to issue a certificate: PodCertificateRequest %s is undecided", c.signer, c.request.name)
	default:
		err = fmt.Errorf("request a certificate of signer %q: %w", c.signer, c.failure)
	}
	p := c.pod
	m.mu.Unlock()
	for _, e := range events {
		m.Warn(p, e.reason, e.message)
	}
	return key, chain, again, err
}

// Forget drops the certificates and keys of a pod.
func (m *Manager) Forget(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, c := range m.certificates {
		if of.pod == uid {
			m.endRequest(c)
			delete(m.certificates, of)
		}
	}
	m.signalChange()
}

// signalChange wakes Run. The lock is held.
func (m *Manager) signalChange() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// State is the key of a count of certificates.
type State struct {
	Signer string
	State  string // as the kubelet's metric kubelet_podcertificate_states has it
}

// States counts the certificates of pods.
func (m *Manager) States() map[State]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[State]int{}
	for _, c := range m.certificates {
		out[State{c.signer, c.state(time.Now())}]++
	}
	return out
}

// Run watches the requests of this node while some are undecided, until the context ends.
func (m *Manager) Run(ctx context.Context) {
	failures, streak := 0, logonce.Streak{}
	for ctx.Err() == nil {
		if !m.hasRequests() {
			select {
			case <-ctx.Done():
			case <-m.changed:
			}
			continue
		}
		err := m.watch(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failures++
			if streak.FailedAs(err.Error(), time.Now()) {
				m.Log.Warn("can't watch the requests for certificates of pods; trying again", "err", err)
			}
			_ = run.Sleep(ctx, watchPause.Jittered(failures))
		default:
			failures = 0
			if streak.Recovered() {
				m.Log.Info("the requests for certificates of pods are watched again")
			}
		}
	}
}

func (m *Manager) hasRequests() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests) > 0
}
