package podcert

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"berth/internal/lib/backoff"
	"berth/internal/lib/pod"
)

var errNotServed = errors.New("the API server has no PodCertificateRequests (certificates.k8s.io/v1beta1): " +
	"switch on the feature gate PodCertificateRequest and that API there, or take the certificate from a secret")

// watchPause is the pause after a watch that failed.
var watchPause = backoff.Exponential{First: time.Second, Max: time.Minute}

const (
	// listTimeout is how long the API server may take to list the requests of this node.
	listTimeout = 30 * time.Second
	// minWatchTimeout is how long a watch lasts at least. Jitter makes it up to twice as long.
	minWatchTimeout = 5 * time.Minute
	// minWatch is the duration below which a watch that ended counts as failed.
	minWatch = time.Second
)

// watch lists the requests of this node, and watches them until none is undecided, or the watch ends.
func (m *Manager) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	version, err := m.list(ctx, began)
	if err != nil {
		return err
	}
	if !m.hasRequests() {
		return nil
	}
	seconds := int64((minWatchTimeout + rand.N(minWatchTimeout)) / time.Second)
	w, err := m.Requests.Watch(ctx, metav1.ListOptions{FieldSelector: ofNode(m.NodeName), ResourceVersion: version, TimeoutSeconds: &seconds})
	if err != nil {
		return fmt.Errorf("watch PodCertificateRequests: %w", err)
	}
	defer w.Stop()
	for m.hasRequests() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.changed: // it may have been the last request
		case e, open := <-w.ResultChan():
			switch {
			case !open && time.Since(began) < minWatch:
				return errors.New("watch PodCertificateRequests: the watch ended as soon as it began")
			case !open:
				return nil
			case e.Type == watch.Error:
				return fmt.Errorf("watch PodCertificateRequests: %w", apierrors.FromObject(e.Object))
			}
			m.receive(ctx, e)
		}
	}
	return nil
}

// list reads the requests of this node, and returns the version to watch from. began is when it was
// called: a request from before that is not in the list was deleted.
func (m *Manager) list(ctx context.Context, began time.Time) (version string, err error) {
	timed, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := m.Requests.List(timed, metav1.ListOptions{FieldSelector: ofNode(m.NodeName)})
	if err != nil {
		return "", fmt.Errorf("list PodCertificateRequests: %w", err)
	}
	there := map[requestName]bool{}
	for i := range list.Items {
		r := &list.Items[i]
		there[requestName{r.Namespace, r.Name}] = true
		m.decide(ctx, r)
	}
	for _, name := range m.requestsBefore(began) {
		if !there[name] {
			m.deleted(ctx, name)
		}
	}
	return list.ResourceVersion, nil
}

// requestsBefore returns the undecided requests that the API server accepted before a time.
func (m *Manager) requestsBefore(t time.Time) []requestName {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []requestName
	for name, of := range m.requests {
		if c := m.certificates[of]; !c.request.created.IsZero() && c.request.created.Before(t) {
			out = append(out, name)
		}
	}
	return out
}

func (m *Manager) receive(ctx context.Context, e watch.Event) {
	r, ok := e.Object.(*certificatesv1beta1.PodCertificateRequest)
	switch {
	case !ok: // a bookmark
	case e.Type == watch.Deleted:
		m.deleted(ctx, requestName{r.Namespace, r.Name})
	case e.Type == watch.Added, e.Type == watch.Modified:
		m.decide(ctx, r)
	}
}

// decide takes over the decision of a signer on a request of this manager, and enqueues the pod.
func (m *Manager) decide(ctx context.Context, r *certificatesv1beta1.PodCertificateRequest) {
	m.mu.Lock()
	c := m.certificates[m.requests[requestName{r.Namespace, r.Name}]]
	if c == nil || c.request == nil {
		m.mu.Unlock()
		return
	}
	held, refused, decided := outcome(r, c.request.key)
	if !decided {
		m.mu.Unlock()
		return
	}
	m.endRequest(c)
	if refused != nil {
		c.refusal = refused
	} else {
		c.held, c.overdueReported, c.expiredReported = held, false, false
	}
	c.failures, c.failure, c.retryAt = 0, nil, time.Time{}
	p := c.pod
	m.mu.Unlock()
	if refused != nil {
		m.Warn(p, refusalEvents[refused.state], refused.Error())
	} else {
		m.Log.Debug("a pod has a new certificate", "pod", pod.Ref(p), "volume", c.of.volume, "until", held.notAfter)
	}
	m.Enqueue(ctx, p.UID)
}

// deleted makes a certificate ready for another request, after the one before was deleted undecided.
func (m *Manager) deleted(ctx context.Context, name requestName) {
	m.mu.Lock()
	c := m.certificates[m.requests[name]]
	if c == nil || c.request == nil {
		m.mu.Unlock()
		return
	}
	m.endRequest(c)
	c.fail(fmt.Errorf("PodCertificateRequest %s was deleted before signer %q decided on it", name, c.signer), time.Now())
	m.mu.Unlock()
	m.Enqueue(ctx, c.of.pod)
}
