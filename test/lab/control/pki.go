package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Everything is valid from a day ago, for tests that turn the clock, and long enough.
const (
	validSince = -24 * time.Hour
	validFor   = 365 * 24 * time.Hour
)

// pair is a certificate with its key, both as PEM.
type pair struct{ cert, key []byte }

// authority signs the certificates of one cluster.
type authority struct {
	pair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	signer, err := newKey()
	if err != nil {
		return nil, err
	}
	template := template(pkix.Name{CommonName: "berth-test-cluster"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	made, err := sign(template, template, signer, signer)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(made.cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	return &authority{pair: made, parsed: parsed, signer: signer}, nil
}

// server makes a certificate for a server with these names and addresses.
func (a *authority) server(name string, names []string, addresses []net.IP) (pair, error) {
	template := template(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames, template.IPAddresses = names, addresses
	return a.issue(template)
}

// client makes a certificate for a user of the API.
func (a *authority) client(u User) (pair, error) {
	template := template(pkix.Name{CommonName: u.Name, Organization: u.Groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	return sign(template, a.parsed, key, a.signer)
}

func template(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   subject,
		NotBefore: now.Add(validSince),
		NotAfter:  now.Add(validFor),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

// sign makes the certificate of key's holder. The library picks a serial number.
func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return pair{}, fmt.Errorf("make certificate of %s: %w", template.Subject, err)
	}
	text, err := encodeKey(key)
	return pair{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: text}, err
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// The files that the parts read their keys from.
const (
	authorityFile     = "authority"      // signs everything
	serverFile        = "server"         // of all parts that serve HTTPS
	kubeletClientFile = "kubelet-client" // what the API server shows to nodes
	accountsFile      = "accounts"       // signs the tokens of service accounts
)

// writeKeys makes all that the parts themselves need, in dir.
func writeKeys(dir string, a *authority, address net.IP) error {
	server, err := a.server("control-plane",
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		[]net.IP{address, net.IPv4(127, 0, 0, 1), net.ParseIP(serviceIP)})
	if err != nil {
		return err
	}
	toNodes, err := a.client(User{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}})
	if err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	accounts, err := encodeKey(key)
	if err != nil {
		return err
	}
	for name, p := range map[string]pair{
		authorityFile: a.pair, serverFile: server, kubeletClientFile: toNodes, accountsFile: {key: accounts},
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".key"), p.key, 0o600); err != nil {
			return err
		}
		if p.cert == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.cert, 0o644); err != nil {
			return err
		}
	}
	return nil
}
