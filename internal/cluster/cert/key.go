package cert

import (
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/keyutil"
)

// pendingKey is the key of a request that has not been answered yet. It is on disk, so that a
// restarted agent goes on with the same request instead of making another one.
type pendingKey struct {
	path   string
	pem    []byte
	signer crypto.Signer
	public []byte // to compare with certificates
}

func pendingKeyPath(dir string) string { return filepath.Join(dir, clientName+".key.pending") }

// openPendingKey returns the key of an unfinished request, or a new key that is saved for it.
func openPendingKey(dir string) (*pendingKey, error) {
	path := pendingKeyPath(dir)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the key of a certificate request: %w", err)
	}
	if key, err := parseKey(path, text); err == nil {
		return key, nil
	}
	// There is no key, or only a part of it was written. Then no request was made with it.
	if text, err = keyutil.MakeEllipticPrivateKeyPEM(); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	if err := writeFile(path, text, 0o600); err != nil {
		return nil, fmt.Errorf("keep the key of a certificate request: %w", err)
	}
	return parseKey(path, text)
}

func parseKey(path string, text []byte) (*pendingKey, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, err
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key %s can't sign", path)
	}
	public, err := x509.MarshalPKIXPublicKey(signer.Public())
	return &pendingKey{path: path, pem: text, signer: signer, public: public}, err
}

// requestName returns the name of the request, which is the same for the same key and user.
func (k *pendingKey) requestName(user string) string {
	sum := sha256.Sum256(append([]byte(user+"\n"), k.public...))
	return "node-csr-" + hex.EncodeToString(sum[:16])
}

// of reports whether a pair has this key.
func (k *pendingKey) of(pair *tls.Certificate) bool {
	leaf, err := leafOf(pair)
	if err != nil {
		return false
	}
	public, err := x509.MarshalPKIXPublicKey(leaf.PublicKey)
	return err == nil && string(public) == string(k.public)
}

// drop removes the key: its request has a final answer.
func (k *pendingKey) drop() error {
	if err := os.Remove(k.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the key of a certificate request: %w", err)
	}
	return nil
}
