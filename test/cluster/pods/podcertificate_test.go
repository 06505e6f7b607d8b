//go:build real

package pods

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/lab"
	"berth/test/lab/control"
)

const (
	goodSigner = "example.com/good"
	badSigner  = "example.com/bad"
)

// signRequests plays two signers until the test ends: one signs everything, the other denies it.
func signRequests(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kit.Must(t, err)
	requests := admin.CertificatesV1beta1().PodCertificateRequests
	w, err := requests("").Watch(t.Context(), metav1.ListOptions{})
	kit.Must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			r, ok := e.Object.(*certificatesv1beta1.PodCertificateRequest)
			if !ok || len(r.Status.Conditions) > 0 {
				continue
			}
			var err error
			r.Status, err = decision(r, authority)
			if err == nil {
				_, err = requests(r.Namespace).UpdateStatus(t.Context(), r, metav1.UpdateOptions{})
			}
			if err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() { w.Stop(); <-done })
}

// decision returns the status that the signer of a request gives it.
func decision(r *certificatesv1beta1.PodCertificateRequest, authority *ecdsa.PrivateKey) (certificatesv1beta1.PodCertificateRequestStatus, error) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	condition := metav1.Condition{
		Type: certificatesv1beta1.PodCertificateRequestConditionTypeDenied, Status: metav1.ConditionTrue, Reason: "Policy", Message: "not for you", LastTransitionTime: now,
	}
	if r.Spec.SignerName == badSigner {
		return certificatesv1beta1.PodCertificateRequestStatus{Conditions: []metav1.Condition{condition}}, nil
	}
	proof, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		return certificatesv1beta1.PodCertificateRequestStatus{}, err
	}
	ends := metav1.NewTime(now.Add(2 * time.Hour))
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Time, NotAfter: ends.Time,
		Subject: pkix.Name{CommonName: r.Spec.PodName + " of " + r.Spec.ServiceAccountName, OrganizationalUnit: []string{r.Spec.UnverifiedUserAnnotations["example.com/unit"]}},
	}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, leaf, proof.PublicKey, authority)
	condition.Type, condition.Reason, condition.Message = certificatesv1beta1.PodCertificateRequestConditionTypeIssued, "Signed", "for you"
	return certificatesv1beta1.PodCertificateRequestStatus{
		Conditions: []metav1.Condition{condition}, CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})),
		NotBefore: &now, NotAfter: &ends, BeginRefreshAt: &metav1.Time{Time: now.Add(time.Hour)},
	}, err
}

func withCertificate(p *corev1.Pod, signer string) *corev1.Pod {
	p.Spec.ServiceAccountName = "robot"
	return kit.OnNode(kit.WithVolume(p, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{
		SignerName: signer, KeyType: "ECDSAP256", CredentialBundlePath: "bundle.pem", UserAnnotations: map[string]string{"example.com/unit": "tests"},
	}}}}}), "one")
}

// planeWithCertificates starts an API server that has PodCertificateRequests, signers, and a service account
// for the pods.
func planeWithCertificates(t *testing.T) (*lab.Lab, kubernetes.Interface) {
	t.Helper()
	plane := kit.NewPlaneWith(t, map[control.Part][]string{control.APIServer: {
		"--feature-gates=PodCertificateRequest=true", "--runtime-config=certificates.k8s.io/v1beta1/podcertificaterequests=true",
	}})
	admin := kit.Client(t, plane, control.Admin())
	_, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, kit.CreateOptions)
	kit.Must(t, err)
	signRequests(t, admin)
	return plane, admin
}

// waitsFor reports whether a pod waits, with a message that contains a text.
func waitsFor(says string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		return p != nil && p.Status.Phase == corev1.PodPending && len(p.Status.ContainerStatuses) > 0 &&
			p.Status.ContainerStatuses[0].State.Waiting != nil && strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Message, says)
	}
}

// bundleOf returns the file with the key and the certificate of a pod.
func bundleOf(n *lab.Node, p *corev1.Pod) string {
	return filepath.Join(n.Root, "pods", string(p.UID), "volumes", "kubernetes.io~projected", "disk", "bundle.pem")
}

// awaitOtherBundle waits until a file has another key and certificate than those of before.
func awaitOtherBundle(t *testing.T, file string, before func(bundle string) bool) {
	t.Helper()
	kit.Within(t, kit.WaitTimeout, func() error {
		now, err := os.ReadFile(file)
		if err == nil && before(string(now)) {
			err = errors.New("the certificate is the old one")
		}
		if err == nil {
			_, err = tls.X509KeyPair(now, now)
		}
		return err
	})
}

func TestCertificatesOfPods(t *testing.T) {
	t.Parallel()
	plane, admin := planeWithCertificates(t)
	n := kit.JoinNode(t, plane, "one")
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(withCertificate(kit.WorkloadPod("a", "sleep"), goodSigner), withCertificate(kit.WorkloadPod("b", "sleep"), badSigner))

	// A pod starts with a key and the certificate that its signer issued for it.
	a := pods.Await("a", "ready", kit.IsReady)
	first, err := os.ReadFile(bundleOf(n, a))
	kit.Must(t, err)
	pair, err := tls.X509KeyPair(first, first)
	kit.Must(t, err)
	if name := pair.Leaf.Subject; name.CommonName != "a of robot" || name.OrganizationalUnit[0] != "tests" {
		t.Errorf("the certificate is that of %s", name)
	}

	// One whose signer refuses waits, and says why.
	const says = `was denied, reason="Policy", message="not for you"`
	pods.Await("b", "waiting", waitsFor(says))
	kit.Within(t, kit.WaitTimeout, func() error {
		events, err := admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=b,reason=Denied"})
		if err == nil && (len(events.Items) != 1 || !strings.Contains(events.Items[0].Message, says)) {
			err = fmt.Errorf("the events are %v", events.Items)
		}
		return err
	})

	// An agent that is started anew does not know when to refresh, and does so at once.
	before := kit.InstanceOf(a)
	n.Kill()
	kit.Must(t, n.Start())
	awaitOtherBundle(t, bundleOf(n, a), func(bundle string) bool { return bundle == string(first) })
	kit.MustKeepInstance(t, pods.Await("a", "ready", kit.IsReady), before)
	kit.MustMatch(t, "the metrics", kit.Kubectl(t, plane, "get", "--raw", "/api/v1/nodes/one/proxy/metrics"),
		`kubelet_podcertificate_states\{signer_name="example.com/good",state="fresh"\} 1`)
}

func TestCertificatesOfPodsAreRefreshed(t *testing.T) {
	t.Parallel()
	plane, admin := planeWithCertificates(t)
	// given a server that has no such requests at first, and then wants the first certificate to be refreshed
	// at once. A real one lets no signer ask for that.
	var served atomic.Bool
	requests := &refreshedRequests{admin: admin}
	n := kit.JoinThroughProxyAs(t, plane, lab.NodeConfig{Name: "one"}, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/podcertificaterequests"):
			return false
		case !served.Load():
			http.NotFound(w, r)
			return true
		case r.Method == http.MethodGet:
			requests.serve(t, w, r)
			return true
		}
		return false
	})
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(withCertificate(kit.WorkloadPod("a", "sleep"), goodSigner))
	pods.Await("a", "waiting", waitsFor("the API server has no PodCertificateRequests"))
	served.Store(true)
	a := pods.Await("a", "ready", kit.IsReady)
	awaitOtherBundle(t, bundleOf(n.Node, a), func(bundle string) bool { return strings.Contains(bundle, requests.first().Status.CertificateChain) })
}

// refreshedRequests answers lists and watches of PodCertificateRequests in place of the API server. The
// certificate of the first request is to be refreshed at once.
type refreshedRequests struct {
	admin kubernetes.Interface

	mu  sync.Mutex
	one *certificatesv1beta1.PodCertificateRequest // the first request, as it was listed last
}

func (q *refreshedRequests) first() *certificatesv1beta1.PodCertificateRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.one
}

// serve ends a watch after a while without an event, so that all is found by the next list.
func (q *refreshedRequests) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		select {
		case <-r.Context().Done():
		case <-time.After(2 * time.Second):
		}
		return
	}
	list, err := q.admin.CertificatesV1beta1().PodCertificateRequests("").List(r.Context(), metav1.ListOptions{FieldSelector: r.URL.Query().Get("fieldSelector")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	list.APIVersion, list.Kind = certificatesv1beta1.SchemeGroupVersion.String(), "PodCertificateRequestList"
	q.mu.Lock()
	for i := range list.Items {
		one := &list.Items[i]
		if q.one == nil || q.one.Name == one.Name {
			if one.Status.BeginRefreshAt != nil {
				one.Status.BeginRefreshAt.Time = time.Now().Add(-6 * time.Minute)
			}
			q.one = one.DeepCopy()
		}
	}
	q.mu.Unlock()
	if err := json.NewEncoder(w).Encode(list); err != nil && r.Context().Err() == nil {
		t.Error(err)
	}
}
