//go:build real

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

// authority makes a certificate authority, and returns its certificate in PEM.
func authority(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kit.Must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	kit.Must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

func TestWhatIsTrustedChangesAtOnce(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlaneWith(t, map[control.Part][]string{control.APIServer: {
		"--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true", "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
	}})
	admin := kit.Client(t, plane, control.Admin())
	n := kit.JoinNode(t, plane, "one")
	bundles := admin.CertificatesV1beta1().ClusterTrustBundles()
	first := authority(t, "first")
	b, err := bundles.Create(t.Context(), &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "roots"}, Spec: certificatesv1beta1.ClusterTrustBundleSpec{TrustBundle: first},
	}, kit.CreateOptions)
	kit.Must(t, err)
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.OnNode(kit.WithVolume(kit.WorkloadPod("a", "sleep"), corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("roots"), Path: "ca.pem"}},
	}}}), "one"))
	a := pods.Await("a", "ready", kit.IsReady)
	file := filepath.Join(n.Root, "pods", string(a.UID), "volumes", "kubernetes.io~projected", "disk", "ca.pem")
	trusted := func(want string) func() error {
		return func() error {
			text, err := os.ReadFile(file)
			if err == nil && string(text) != want {
				err = errors.New("the file is another")
			}
			return err
		}
	}
	kit.Must(t, trusted(first)())

	b.Spec.TrustBundle = authority(t, "second")
	began := time.Now()
	_, err = bundles.Update(t.Context(), b, metav1.UpdateOptions{})
	kit.Must(t, err)
	kit.Within(t, 5*time.Second, trusted(b.Spec.TrustBundle)) // it takes some milliseconds on an idle machine
	t.Logf("a change of what is trusted was seen after %s", time.Since(began))
}
