package volume

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
	"berth/internal/lib/volumekind"
)

// Certificates gets the credentials of podCertificate sources.
type Certificates interface {
	// Certificate returns the key and the certificate chain of a source, in PEM, and when to call again.
	// index is the place of the source in its volume; stored returns the credentials that are in the
	// volume, or nil.
	Certificate(ctx context.Context, p *v1.Pod, volume string, index int, s *v1.PodCertificateProjection, stored func() (key, chain []byte)) (
		key, chain []byte, again time.Time, err error)
	// Forget drops the credentials of a pod.
	Forget(uid pod.UID)
}

var errNoCertificates = errors.New("a podCertificate needs a cluster, and static pods get none: take the key and the certificate from a secret")

// podCertificate adds the key and the certificates of a podCertificate source.
func (j *job) podCertificate(ctx context.Context, p payload, volume string, index int, s *v1.PodCertificateProjection, defaultMode *int32) error {
	if j.m.cfg.Certificates == nil || pod.IsStatic(j.pod) {
		return errNoCertificates
	}
	stored := func() (key, chain []byte) { return j.storedCertificate(volume, s) }
	key, chain, again, err := j.m.cfg.Certificates.Certificate(ctx, j.pod, volume, index, s, stored)
	j.renew(again)
	if err != nil {
		return fmt.Errorf("get a certificate for the pod: %w", err)
	}
	for at, data := range map[string][]byte{s.KeyPath: key, s.CertificateChainPath: chain, s.CredentialBundlePath: append(key[:len(key):len(key)], chain...)} {
		if at == "" {
			continue
		}
		f, err := j.credentialFile(data, defaultMode)
		if err == nil {
			err = p.add(at, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// credentialFile returns a file with a token or a key. If all containers run as one user, only that user
// can read it; if the pod has an fsGroup, its group can, too.
func (j *job) credentialFile(data []byte, defaultMode *int32) (file, error) {
	mode, err := fileMode(defaultMode)
	if err != nil {
		return file{}, err
	}
	user := commonUser(j.pod)
	if user >= 0 || j.group >= 0 {
		mode = 0o600
	}
	return file{data: data, mode: mode, uid: user}, nil
}

// storedCertificate returns the credentials that an earlier agent has written to a volume, or nil.
func (j *job) storedCertificate(volume string, s *v1.PodCertificateProjection) (key, chain []byte) {
	dir := j.volumePath(volumekind.Projected.Dir(), volume)
	current := atomicWriter{dir: dir}.current()
	read := func(at string) []byte {
		clean, err := cleanPath(at)
		if err != nil || current == "" {
			return nil
		}
		data, err := podfile.Read(dir, path.Join(current, clean), maxObject)
		if err != nil {
			return nil // it is not there, or can't be used
		}
		return data
	}
	if s.CredentialBundlePath == "" {
		return read(s.KeyPath), read(s.CertificateChainPath)
	}
	first, rest := pem.Decode(read(s.CredentialBundlePath))
	if first == nil {
		return nil, nil
	}
	return pem.EncodeToMemory(first), rest
}
