package podcert

import (
	"bytes"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestACertificateIsRequestedAndIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		began := time.Now()

		// given a signer that takes its time
		_, _, again, err := n.certificate()
		if err == nil || !strings.Contains(err.Error(), `waiting for signer "example.com/signer" to issue a certificate: PodCertificateRequest shop/req-`) {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != signerTimeout || !again.Equal(time.Now().Add(checkInterval)) {
			t.Errorf("it took %s, and is to be tried again at %s", waited, again)
		}
		n.mustHaveState(stateNotYetIssued)
		r := n.newest()
		s := r.Spec
		if r.Namespace != "shop" || s.SignerName != "example.com/signer" || s.PodName != "web" || s.PodUID != "u-1" || s.ServiceAccountName != "robot" ||
			s.ServiceAccountUID != "uid of robot" || s.NodeName != "box" || s.NodeUID != "n-1" || *s.MaxExpirationSeconds != 86400 ||
			s.UnverifiedUserAnnotations["example.com/for"] != "tests" || r.OwnerReferences[0].UID != "u-1" {
			t.Errorf("the request is %+v", r)
		}

		// when nothing happens, then there is no second request
		if _, _, _, err := n.certificate(); err == nil || n.count() != 1 {
			t.Error(err, n.count())
		}

		// when it is issued, then the pod is enqueued, and gets it
		n.setStatus(issuedStatus(t, r))
		if enqueued, _ := n.news(); len(enqueued) != 1 || enqueued[0] != "u-1" {
			t.Error("enqueued:", enqueued)
		}
		key, chain, again := n.mustHave()
		if block, rest := pem.Decode(key); block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
			t.Errorf("the key is no key")
		}
		if !bytes.HasPrefix(chain, []byte("-----BEGIN CERTIFICATE-----\n")) || bytes.Contains(chain, []byte("By: me")) {
			t.Errorf("the chain is not clean: %s", chain)
		}
		if refresh := time.Until(again); refresh < 55*time.Minute || refresh > time.Hour+maxJitter {
			t.Error("it is to be refreshed in", refresh)
		}
		n.mustHaveState(stateFresh)
		if n.isWatched() {
			t.Error("nothing is undecided, and it is watched")
		}
		n.Forget("u-1")
		if got := n.States(); len(got) != 0 {
			t.Error(got)
		}
	})
}

// However many sources a pod has, its sync is held up for a moment only.
func TestSignersOfSeveralSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		began := time.Now()
		for i := range 10 {
			if _, _, _, err := n.Certificate(t.Context(), testPod(), "vol", i, projection(), nothingStored); err == nil {
				t.Fatal("there is no signer")
			}
		}
		if took := time.Since(began); took != signerTimeout || n.count() != 10 {
			t.Error("it took", took, n.count())
		}
	})
}

// A quick signer does not make the pod wait for another sync.
func TestAQuickSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.onCreated = func(r *certificatesv1beta1.PodCertificateRequest) { n.setStatus(issuedStatus(t, r)) }
		began := time.Now()
		n.mustHave()
		if took := time.Since(began); took > 0 {
			t.Error("it took", took)
		}
	})
}

func TestACertificateIsRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.onCreated = func(r *certificatesv1beta1.PodCertificateRequest) { n.setStatus(issuedStatus(t, r)) }
		key, chain, again := n.mustHave()

		// when it is time, then the old certificate is used until the new one is issued
		n.onCreated = nil
		time.Sleep(time.Until(again) - time.Second)
		if n.mustHave(); n.count() != 1 {
			t.Fatal("it was refreshed too early")
		}
		time.Sleep(time.Second)
		if k, c, _ := n.mustHave(); !bytes.Equal(k, key) || !bytes.Equal(c, chain) || n.count() != 2 {
			t.Fatal("the old certificate is not used", n.count())
		}
		n.mustHaveState(stateFresh)
		n.setStatus(issuedStatus(t, n.newest()))
		if enqueued, _ := n.news(); len(enqueued) == 0 {
			t.Error("the pod was not enqueued")
		}
		if k, c, _ := n.mustHave(); bytes.Equal(k, key) || bytes.Equal(c, chain) {
			t.Error("key and certificate are the old ones")
		}
	})
}

// A signer may want a certificate to be replaced as soon as it was issued.
func TestACertificateThatIsToBeRefreshedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.onCreated = func(r *certificatesv1beta1.PodCertificateRequest) {
			status := issuedStatus(t, r)
			status.BeginRefreshAt.Time = time.Now().Add(-2 * maxJitter)
			n.setStatus(status)
		}
		if _, _, again := n.mustHave(); time.Until(again) > 0 {
			t.Error("it is looked at again in", time.Until(again))
		}
		if n.mustHave(); n.count() != 2 {
			t.Error("requests:", n.count())
		}
	})
}

func TestASignerThatDoesNotRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.onCreated = func(r *certificatesv1beta1.PodCertificateRequest) { n.setStatus(issuedStatus(t, r)) }
		_, _, again := n.mustHave()
		n.onCreated = nil
		n.news()
		time.Sleep(time.Until(again))
		_, _, again = n.mustHave()
		if _, events := n.news(); len(events) > 0 {
			t.Error(events)
		}

		time.Sleep(time.Until(again) + time.Second)
		_, _, again = n.mustHave()
		n.mustHaveState(stateOverdue)
		n.mustHave()
		if _, events := n.news(); len(events) != 1 || !strings.HasPrefix(events[0], "web CertificateOverdueForRefresh: PodCertificate refresh overdue") {
			t.Error(events)
		}
		time.Sleep(time.Until(again) + time.Second)
		n.mustHave()
		n.mustHaveState(stateExpired)
		if _, events := n.news(); len(events) != 1 || !strings.HasPrefix(events[0], "web CertificateExpired: PodCertificate expired") {
			t.Error(events)
		}
		if n.count() != 2 {
			t.Error("requests:", n.count())
		}
	})
}

func TestRefusals(t *testing.T) {
	for kind, c := range map[string]struct{ state, says string }{
		certificatesv1beta1.PodCertificateRequestConditionTypeDenied: {stateDenied, `was denied, reason="Policy", message="not you"`},
		certificatesv1beta1.PodCertificateRequestConditionTypeFailed: {stateFailed, `failed, reason="Policy", message="not you"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t)
			n.onCreated = func(*certificatesv1beta1.PodCertificateRequest) {
				n.setStatus(refusedStatus(kind, "Policy", "not you"))
			}
			_, _, again, err := n.certificate()
			if err == nil || !strings.Contains(err.Error(), c.says) || !again.IsZero() {
				t.Error(again, err)
			}
			if _, events := n.news(); len(events) != 1 || !strings.HasPrefix(events[0], "web "+kind+": PodCertificateRequest shop/req-") || !strings.HasSuffix(events[0], c.says) {
				t.Error(events)
			}
			n.mustHaveState(c.state)
			time.Sleep(time.Hour)
			if _, _, _, err := n.certificate(); err == nil || n.count() != 1 {
				t.Error("a refusal is final", n.count())
			}
		})
	}
}

// A signer that answers with the certificate of another key can't make a pod use it.
func TestACertificateThatCannotBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.onCreated = func(r *certificatesv1beta1.PodCertificateRequest) {
			status := issuedStatus(t, r)
			_, other, err := newKey("ED25519")
			if err != nil {
				t.Error(err)
			}
			r.Spec.StubPKCS10Request = other
			status.CertificateChain = issuedStatus(t, r).CertificateChain
			n.setStatus(status)
		}
		if _, _, _, err := n.certificate(); err == nil || !strings.Contains(err.Error(), "the certificate that was issued can't be used") {
			t.Error(err)
		}
	})
}

func TestARequestThatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		if _, _, _, err := n.certificate(); err == nil {
			t.Fatal("there is no signer")
		}
		n.remove()
		if enqueued, _ := n.news(); len(enqueued) != 1 {
			t.Error("enqueued:", enqueued)
		}
		_, _, again, err := n.certificate()
		if err == nil || !strings.Contains(err.Error(), "was deleted before") || n.count() != 1 {
			t.Fatal(err, n.count())
		}
		n.onCreated = func(r *certificatesv1beta1.PodCertificateRequest) { n.setStatus(issuedStatus(t, r)) }
		time.Sleep(time.Until(again))
		n.mustHave()
	})
}

// A request that was deleted, or decided on, while nothing was watched is found by the next list.
func TestAWatchThatWasLost(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *node){
		"deleted": func(_ *testing.T, n *node) { n.remove() },
		"issued":  func(t *testing.T, n *node) { n.setStatus(issuedStatus(t, n.newest())) },
	} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t)
			if _, _, _, err := n.certificate(); err == nil {
				t.Fatal("there is no signer")
			}
			n.server.mu.Lock()
			for w := range n.watches {
				w.Stop()
			}
			clear(n.watches)
			n.fails = errors.New("no server")
			n.server.mu.Unlock()
			change(t, n)
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := strings.Count(n.log.String(), "can't watch the requests"); got != 1 || n.lists > 100 {
				t.Errorf("%s: it was logged %d times, and listed %d times", name, got, n.lists)
			}
			n.setFailure(nil)
			time.Sleep(watchPause.Max)
			if enqueued, _ := n.news(); len(enqueued) != 1 {
				t.Errorf("%s: enqueued: %v", name, enqueued)
			}
		})
	}
}

func TestAServerThatDoesNotAcceptRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.setFailure(errors.New("no room"))
		_, _, again, err := n.certificate()
		if err == nil || !strings.Contains(err.Error(), `request a certificate of signer "example.com/signer": create a PodCertificateRequest: no room`) {
			t.Fatal(err)
		}
		// Syncs that come earlier make no requests.
		n.setFailure(nil)
		if _, _, same, err := n.certificate(); err == nil || !same.Equal(again) || n.count() != 0 {
			t.Fatal(err, same, n.count())
		}
		n.onCreated = func(r *certificatesv1beta1.PodCertificateRequest) { n.setStatus(issuedStatus(t, r)) }
		time.Sleep(time.Until(again))
		key, _, again := n.mustHave()

		// A failed refresh leaves the old certificate, and is logged once.
		n.setFailure(errors.New("no room"))
		time.Sleep(time.Until(again))
		for range 20 {
			k, _, again := n.mustHave()
			if !bytes.Equal(k, key) {
				t.Fatal("another key")
			}
			time.Sleep(time.Until(again))
		}
		if got := strings.Count(n.log.String(), "can't be refreshed"); got != 1 || strings.Contains(n.log.String(), "PRIVATE KEY") {
			t.Error(n.log)
		}
	})
}

func TestAServerWithoutPodCertificateRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.setFailure(apierrors.NewNotFound(resourceOf(), ""))
		if _, _, _, err := n.certificate(); !errors.Is(err, errNotServed) {
			t.Error(err)
		}
	})
}

// An agent that was started anew uses what is in the volume, and replaces it soon.
func TestCredentialsOfAnEarlierAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.onCreated = func(r *certificatesv1beta1.PodCertificateRequest) { n.setStatus(issuedStatus(t, r)) }
		key, chain, _ := n.mustHave()
		n.Forget("u-1")
		n.onCreated = nil
		stored := func() ([]byte, []byte) { return key, chain }
		ask := func() ([]byte, time.Time) {
			k, _, again, err := n.Certificate(t.Context(), testPod(), "vol", 0, projection(), stored)
			if err != nil {
				t.Fatal(err)
			}
			return k, again
		}
		k, again := ask()
		if !bytes.Equal(k, key) || n.count() != 1 || time.Until(again) > maxAdoptedJitter {
			t.Error(n.count(), again)
		}
		time.Sleep(time.Until(again))
		if k, _ := ask(); !bytes.Equal(k, key) || n.count() != 2 {
			t.Error("no refresh was requested", n.count())
		}
		n.setStatus(issuedStatus(t, n.newest()))
		synctest.Wait()
		if k, _ := ask(); bytes.Equal(k, key) {
			t.Error("it was not replaced")
		}
		// What has expired is not used.
		n.Forget("u-1")
		time.Sleep(48 * time.Hour)
		if _, _, _, err := n.Certificate(t.Context(), testPod(), "vol", 0, projection(), stored); err == nil {
			t.Error("an expired certificate is used")
		}
	})
}

func TestKeys(t *testing.T) {
	for _, kind := range []string{"RSA3072", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"} {
		key, proof, err := newKey(kind)
		if err != nil {
			t.Fatal(kind, err)
		}
		r := newRequest(testPod(), projection(), accountOf(), nodeOf(), proof)
		held, refused, decided := outcome(&certificatesv1beta1.PodCertificateRequest{Status: issuedStatus(t, r)}, key)
		if !decided || refused != nil || held == nil {
			t.Errorf("%s: %v", kind, refused)
		}
	}
	if _, _, err := newKey("RSA512"); err == nil || !strings.Contains(err.Error(), `keyType "RSA512" is not known: RSA3072, `) {
		t.Error(err)
	}
}
