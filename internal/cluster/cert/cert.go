// Package cert gets and keeps the certificates of a node.
//
// There are two. The client certificate authenticates the node at the API server: Bootstrap gets the
// first one, with credentials that are good for nothing else, and Client renews it. The serving certificate is for the clients of the node's API,
// which ask for logs and metrics: Serving takes it from files, requests it from the
// cluster, or makes a self-signed one.
//
// This package is the only writer of the certificate folder, and there is one
// writer per name in it. A file in use is never written to: a new one takes its
// place. So a reader finds a whole pair, and a kill at any moment leaves something
// to go on from. The names are those of the kubelet, for programs that look there.
//
// client-go's certificate manager decides when to renew (after 70 to 90 % of a
// certificate's life) and when to try again. It would log every attempt: see report.
package cert

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/atomicfile"
)

// The names of files in the certificate folder, without their suffixes.
const (
	clientName     = "kubelet-client" // -current.pem is the newest pair
	servingName    = "kubelet-server" // -current.pem is the newest pair
	selfSignedName = "kubelet"        // .crt and .key
)

// nodeUser returns the user name of a node at the API server.
func nodeUser(node string) string { return "system:node:" + node }

// subject returns the subject of all certificates that a node requests from the cluster.
func subject(node string) pkix.Name {
	return pkix.Name{CommonName: nodeUser(node), Organization: []string{"system:nodes"}}
}

// names are the DNS names and IP addresses of a serving certificate.
type names struct {
	hosts     []string
	addresses []net.IP
}

// namesOf sorts the addresses of a node into DNS names and IP addresses.
func namesOf(addresses []v1.NodeAddress) names {
	var n names
	for _, a := range addresses {
		switch ip := net.ParseIP(a.Address); {
		case ip != nil:
			n.addresses = append(n.addresses, ip)
		case a.Address == "", a.Type == v1.NodeInternalIP, a.Type == v1.NodeExternalIP:
		default:
			n.hosts = append(n.hosts, a.Address)
		}
	}
	slices.Sort(n.hosts)
	n.hosts = slices.Compact(n.hosts)
	slices.SortFunc(n.addresses, slices.Compare)
	n.addresses = slices.CompactFunc(n.addresses, net.IP.Equal)
	return n
}

func (n names) none() bool { return len(n.hosts)+len(n.addresses) == 0 }

// in reports whether a certificate is valid for all of the names.
func (n names) in(leaf *x509.Certificate) bool {
	for _, h := range n.hosts {
		if !slices.Contains(leaf.DNSNames, h) {
			return false
		}
	}
	for _, ip := range n.addresses {
		if !slices.ContainsFunc(leaf.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// leafOf returns the leaf certificate of a pair, without the certificates of its issuers.
func leafOf(pair *tls.Certificate) (*x509.Certificate, error) {
	switch {
	case pair == nil || len(pair.Certificate) == 0:
		return nil, errors.New("there is no certificate")
	case pair.Leaf != nil:
		return pair.Leaf, nil
	}
	return x509.ParseCertificate(pair.Certificate[0])
}

// expired reports whether a pair has expired, is nil, or can't be parsed.
func expired(pair *tls.Certificate, now time.Time) bool {
	leaf, err := leafOf(pair)
	return err != nil || now.After(leaf.NotAfter)
}

// writeFile replaces the file at path atomically.
func writeFile(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.ReplaceForGood(path, data, mode)
}
