package podcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// newKey makes a private key of a type, in PEM, and a certificate request without a subject (PKCS #10,
// DER) that proves its possession.
func newKey(keyType string) (key, proof []byte, err error) {
	private, err := generateKey(keyType)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	proof, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		return nil, nil, fmt.Errorf("prove the possession of a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), proof, nil
}

func generateKey(keyType string) (crypto.Signer, error) {
	switch keyType {
	case "RSA3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	default:
		return nil, fmt.Errorf("keyType %q is not known: RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 and ED25519 are", keyType)
	}
}

// checkChain returns the first certificate of a chain that was issued for a key, and the chain without
// anything but certificates.
func checkChain(key, chain []byte) (leaf *x509.Certificate, clean []byte, err error) {
	for rest := chain; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			clean = append(clean, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
	}
	pair, err := tls.X509KeyPair(clean, key)
	if err != nil {
		return nil, nil, err
	}
	if pair.Leaf == nil {
		return nil, nil, errors.New("there is no certificate")
	}
	return pair.Leaf, clean, nil
}
