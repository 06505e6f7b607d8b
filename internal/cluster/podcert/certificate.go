package podcert

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
)

// source is a podCertificate source: an entry of a projected volume of a pod.
type source struct {
	pod    pod.UID
	volume string
	index  int
}

// certificate is the state of the certificate of one source. Manager.mu guards it.
//
//	           request             issued              refreshAt
//	absent ─────────────▶ pending ─────────▶ issued ─────────────▶ refreshing
//	   ▲                   │  │               ▲  ▲                   │  │  │
//	   └───── deleted ─────┘  │               │  └───── issued ──────┘  │  │
//	                          │ denied,       └─────── deleted ─────────┘  │
//	                          ▼ failed                                     │
//	                       refused ◀──────────────────────────────────────┘
type certificate struct {
	of     source
	pod    *v1.Pod
	signer string

	held    *credentials // nil: absent or pending
	request *request     // nil unless pending or refreshing
	refusal *refusal     // nil unless refused

	failures int       // requests in a row that came to nothing
	failure  error     // why the last one did
	retryAt  time.Time // when to make the next one
	streak   logonce.Streak

	overdueReported, expiredReported bool // of the credentials that are held
}

// credentials are a private key and its certificate chain, in PEM.
type credentials struct {
	key, chain []byte
	refreshAt  time.Time // when to ask for others
	notAfter   time.Time
}

// requestName is the namespace and the name of a PodCertificateRequest.
type requestName struct{ namespace, name string }

func (n requestName) String() string { return n.namespace + "/" + n.name }

// request is a PodCertificateRequest that is undecided.
type request struct {
	name    requestName
	key     []byte
	created time.Time     // zero: the API server has not accepted it yet
	decided chan struct{} // closed when it is
}

// refusal is the error of a request that a signer has denied, or failed to sign.
type refusal struct {
	name            requestName
	state           string // denied, failed
	reason, message string
}

func (r *refusal) Error() string {
	verb := "failed"
	if r.state == stateDenied {
		verb = "was denied"
	}
	return fmt.Sprintf("PodCertificateRequest %s %s, reason=%q, message=%q", r.name, verb, r.reason, r.message)
}

// needsRequest reports whether it is time to ask for a certificate.
func (c *certificate) needsRequest(now time.Time) bool {
	return c.refusal == nil && c.request == nil && !now.Before(c.retryAt) && (c.held == nil || !now.Before(c.held.refreshAt))
}

// awaitsFirst reports whether the API server has accepted the first request for the certificate, and it is
// undecided.
func (c *certificate) awaitsFirst() bool {
	return c.held == nil && c.request != nil && !c.request.created.IsZero()
}

// fail records that a request came to nothing.
func (c *certificate) fail(err error, now time.Time) {
	c.failures++
	c.failure, c.retryAt = err, now.Add(requestPause.Jittered(c.failures))
}

// overdueAfter is how long after refreshAt a certificate counts as overdue for refresh.
const overdueAfter = 10 * time.Minute

// The states of a certificate in the metric.
const (
	stateNotYetIssued = "not_yet_issued"
	stateFresh        = "fresh"
	stateOverdue      = "overdue_for_refresh"
	stateExpired      = "expired"
	stateDenied       = "denied"
	stateFailed       = "failed"
)

func (c *certificate) state(now time.Time) string {
	switch {
	case c.refusal != nil:
		return c.refusal.state
	case c.held == nil:
		return stateNotYetIssued
	case now.After(c.held.notAfter):
		return stateExpired
	case now.After(c.held.refreshAt.Add(overdueAfter)):
		return stateOverdue
	default:
		return stateFresh
	}
}

// lateEvent is a warning about a certificate that should have been replaced.
type lateEvent struct{ reason, message string }

// lateEvents returns the warnings that are due, each once for the credentials that are held.
func (c *certificate) lateEvents(now time.Time) []lateEvent {
	if c.held == nil {
		return nil
	}
	var out []lateEvent
	if now.After(c.held.refreshAt.Add(overdueAfter)) && !c.overdueReported {
		c.overdueReported = true
		out = append(out, lateEvent{"CertificateOverdueForRefresh", fmt.Sprintf("PodCertificate refresh overdue: signer %q has not issued a new certificate for volume %q", c.signer, c.of.volume)})
	}
	if now.After(c.held.notAfter) && !c.expiredReported {
		c.expiredReported = true
		out = append(out, lateEvent{"CertificateExpired", fmt.Sprintf("PodCertificate expired: that of signer %q in volume %q", c.signer, c.of.volume)})
	}
	return out
}

// nextCheck returns when something is to be done for the certificate, if nothing is enqueued before:
// a request, or a warning. Zero: never.
func (c *certificate) nextCheck(now time.Time) time.Time {
	if c.refusal != nil {
		return time.Time{}
	}
	if c.needsRequest(now) { // it was issued a moment ago, and should have been refreshed before
		return now
	}
	if c.held == nil {
		if c.request != nil {
			return now.Add(checkInterval)
		}
		return c.retryAt
	}
	times := []time.Time{c.held.refreshAt.Add(overdueAfter), c.held.notAfter}
	if c.request == nil {
		times = append(times, c.held.refreshAt, c.retryAt)
	}
	var next time.Time
	for _, t := range times {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}
