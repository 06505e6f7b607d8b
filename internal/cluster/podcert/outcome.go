package podcert

import (
	"fmt"
	"math/rand/v2"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// refusalEvents are the reasons of events on refusals, by state.
var refusalEvents = map[string]string{
	stateDenied: certificatesv1beta1.PodCertificateRequestConditionTypeDenied,
	stateFailed: certificatesv1beta1.PodCertificateRequestConditionTypeFailed,
}

// outcome returns the decision of a signer on a request that was made with a key: credentials, or a
// refusal. It returns false if there is no decision yet.
func outcome(r *certificatesv1beta1.PodCertificateRequest, key []byte) (*credentials, *refusal, bool) {
	name := requestName{r.Namespace, r.Name}
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1beta1.PodCertificateRequestConditionTypeDenied:
			return nil, &refusal{name, stateDenied, c.Reason, c.Message}, true
		case certificatesv1beta1.PodCertificateRequestConditionTypeFailed:
			return nil, &refusal{name, stateFailed, c.Reason, c.Message}, true
		case certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
			held, err := issued(&r.Status, key)
			if err != nil {
				return nil, &refusal{name, stateFailed, "UnusableCertificate", fmt.Sprintf("the certificate that was issued can't be used: %v", err)}, true
			}
			return held, nil, true
		}
	}
	return nil, nil, false
}

func issued(s *certificatesv1beta1.PodCertificateRequestStatus, key []byte) (*credentials, error) {
	leaf, chain, err := checkChain(key, []byte(s.CertificateChain))
	if err != nil {
		return nil, err
	}
	begin := leaf.NotAfter
	if s.BeginRefreshAt != nil && s.BeginRefreshAt.Time.Before(begin) {
		begin = s.BeginRefreshAt.Time
	}
	return &credentials{key: key, chain: chain, refreshAt: begin.Add(jitter(leaf.NotAfter.Sub(begin))), notAfter: leaf.NotAfter}, nil
}

// maxJitter bounds the time by which a refresh comes later than the signer has set, at random, so that
// certificates that were issued together are not refreshed together.
const maxJitter = 5 * time.Minute

// jitter returns a part of the time that is left to refresh a certificate.
func jitter(left time.Duration) time.Duration {
	return rand.N(min(maxJitter, max(left/20, 0)) + 1)
}
