package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// fakeCertificates has one key and one chain for all sources.
type fakeCertificates struct {
	key, chain string
	again      time.Time
	err        error

	stored    string // the credentials in the volume at the last call
	asked     string
	forgotten []pod.UID
}

func (f *fakeCertificates) Certificate(
	_ context.Context, _ *v1.Pod, volume string, index int, s *v1.PodCertificateProjection, stored func() (key, chain []byte),
) (key, chain []byte, again time.Time, err error) {
	k, c := stored()
	f.stored, f.asked = string(k)+"+"+string(c), volume+" "+string(rune('0'+index))+" "+s.SignerName
	return []byte(f.key), []byte(f.chain), f.again, f.err
}

func (f *fakeCertificates) Forget(uid pod.UID) { f.forgotten = append(f.forgotten, uid) }

func withCertificates(t *testing.T) (*world, *fakeCertificates) {
	t.Helper()
	w := newWorld(t)
	f := &fakeCertificates{key: pemKey, chain: pemChain, again: time.Now().Add(time.Hour)}
	w.cfg.Certificates = f
	w.restart()
	return w, f
}

const (
	pemKey   = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	pemChain = "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nCCCC\n-----END CERTIFICATE-----\n"
)

func podWithCertificate(s v1.PodCertificateProjection) *v1.Pod {
	s.SignerName = "example.com/signer"
	return podWith(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}},
		{PodCertificate: &s},
	}}})
}

func TestACertificateOfAPod(t *testing.T) {
	w, f := withCertificates(t)
	p := podWithCertificate(v1.PodCertificateProjection{CredentialBundlePath: "tls/bundle.pem", KeyPath: "tls/key.pem", CertificateChainPath: "tls/chain.pem"})

	due := w.setup(p)

	w.must(w.dir(p), map[string]string{"name": "web", "tls/bundle.pem": pemKey + pemChain, "tls/key.pem": pemKey, "tls/chain.pem": pemChain})
	if !due.Equal(f.again) || f.asked != "vol 1 example.com/signer" {
		t.Error(due, f.asked)
	}
	if len(w.mounter.done) != 1 || w.mounter.done[0][:9] != "tmpfs vol" {
		t.Error("a key is not held in memory:", w.mounter.done)
	}

	// A new certificate replaces the files; an agent that starts finds them.
	f.key = "-----BEGIN PRIVATE KEY-----\nDDDD\n-----END PRIVATE KEY-----\n"
	w.setup(p)
	w.must(w.dir(p), map[string]string{"name": "web", "tls/bundle.pem": f.key + pemChain, "tls/key.pem": f.key, "tls/chain.pem": pemChain})
	w.restart()
	w.setup(p)
	if f.stored != f.key+"+"+pemChain {
		t.Errorf("stored is %q", f.stored)
	}

	// One that can't be had leaves the old one, and says why.
	f.err = errors.New("no signer")
	if err := w.failure(p, `volume "vol": get a certificate for the pod: no signer`); !usable(err) {
		t.Error(err)
	}
	if err := w.m.Teardown(t.Context(), p.UID); err != nil || len(f.forgotten) != 1 {
		t.Error(err, f.forgotten)
	}
}

func TestOnlyTheUserOfAPodCanReadItsKey(t *testing.T) {
	w, f := withCertificates(t)
	user := int64(os.Getuid())
	p := podWithCertificate(v1.PodCertificateProjection{KeyPath: "key.pem", CertificateChainPath: "chain.pem"})
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsUser: &user}
	w.setup(p)
	if m := mode(t, filepath.Join(w.dir(p), "key.pem")); m != 0o600 {
		t.Error("others can read the key:", m)
	}
	w.restart()
	w.setup(p)
	if f.stored != pemKey+"+"+pemChain {
		t.Errorf("stored is %q", f.stored)
	}
}

func TestStaticPodsGetNoCertificates(t *testing.T) {
	w, _ := withCertificates(t)
	p := podWithCertificate(v1.PodCertificateProjection{KeyPath: "key.pem"})
	p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	w.setupFails(p, "take the key and the certificate from a secret")
}
