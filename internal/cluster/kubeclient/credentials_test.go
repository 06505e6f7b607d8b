package kubeclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// newPair is a certificate that vouches for itself, and for nothing but the name "test".
func newPair(t *testing.T, name string) (pair tls.Certificate, cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
	pair, err = tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair, cert, key
}

// serveNames starts a server. last returns the name in the client certificate of its last request.
func serveNames(t *testing.T) (url string, last func() string) {
	t.Helper()
	var name atomic.Pointer[string]
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := "nobody"
		if shown := r.TLS.PeerCertificates; len(shown) > 0 {
			who = shown[0].Subject.CommonName
		}
		name.Store(&who)
		w.WriteHeader(http.StatusNotFound)
	}))
	web.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(web.Close)
	return web.URL, func() string { return *name.Load() }
}

// userFile writes a kubeconfig of a user that does not verify the server.
func userFile(t *testing.T, url, user string) string {
	t.Helper()
	path := kubeconfig(t, url, ", insecure-skip-tls-verify: true")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, []byte(strings.Replace(string(text), "user: {}", "user: {"+user+"}", 1)))
	return path
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestACertificateCanBeReplaced(t *testing.T) {
	url, last := serveNames(t)
	// Given a kubeconfig with a certificate of its own, which is not to be used.
	_, cert, key := newPair(t, "kubeconfig")
	dir := t.TempDir()
	put(t, filepath.Join(dir, "c"), cert)
	put(t, filepath.Join(dir, "k"), key)
	var current atomic.Pointer[tls.Certificate]
	clients, err := New(Config{
		Kubeconfig: userFile(t, url, fmt.Sprintf("client-certificate: %s/c, client-key: %s/k", dir, dir)),
		UserAgent:  "test", ClientCertificate: current.Load,
	})
	if err != nil {
		t.Fatal(err)
	}
	shows := func(want string) {
		t.Helper()
		for name, c := range map[string]*Client{"general": clients.General, "heartbeat": clients.Heartbeat, "events": clients.Events} {
			_, _ = c.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
			if got := last(); got != want {
				t.Errorf("%s shows %q, want %q", name, got, want)
			}
		}
	}
	shows("nobody") // there is none yet

	// When there is another one, then it is shown after a reconnect.
	for _, name := range []string{"first", "second"} {
		pair, _, _ := newPair(t, name)
		current.Store(&pair)
		clients.Reconnect()
		shows(name)
	}
}

func TestCertificateFilesAreReadAgain(t *testing.T) {
	url, last := serveNames(t)
	dir := t.TempDir()
	write := func(name string) {
		_, cert, key := newPair(t, name)
		put(t, filepath.Join(dir, "pair"), append(cert, key...))
	}
	write("first")
	clients, err := New(Config{
		Kubeconfig: userFile(t, url, fmt.Sprintf("client-certificate: %s/pair, client-key: %s/pair", dir, dir)), UserAgent: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		_, _ = clients.General.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		return last()
	}
	if got := ask(); got != "first" {
		t.Fatalf("shows %q", got)
	}

	// The library looks at most once a second.
	write("second")
	for deadline := time.Now().Add(10 * time.Second); ask() != "second"; clients.Reconnect() {
		if time.Now().After(deadline) {
			t.Fatal("the new one is not shown")
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

func TestAuthorityAndTokenFilesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a server whose certificate is replaced, and a client that knows the first.
		server := newPipeServer(t)
		dir := t.TempDir()
		path := kubeconfig(t, "https://test", ", certificate-authority: "+dir+"/ca")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		put(t, path, []byte(strings.Replace(string(text), "user: {}", "user: {tokenFile: "+dir+"/token}", 1)))
		put(t, filepath.Join(dir, "ca"), server.change(t))
		put(t, filepath.Join(dir, "token"), []byte("first"))
		config, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		config.Dial = server.dial
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		ask := func() (string, error) {
			answer, err := client.Get("https://test/")
			if err != nil {
				return "", err
			}
			defer answer.Body.Close()
			return answer.Header.Get("Said"), nil
		}
		if said, err := ask(); said != "Bearer first" || err != nil {
			t.Fatalf("said %q, %v", said, err)
		}

		// When both files are replaced, then they are used within minutes.
		put(t, filepath.Join(dir, "ca"), server.change(t))
		put(t, filepath.Join(dir, "token"), []byte("second"))
		if _, err := ask(); err == nil {
			t.Fatal("a server was trusted that is not known")
		}
		time.Sleep(5 * time.Minute)
		if said, err := ask(); said != "Bearer second" || err != nil {
			t.Fatalf("said %q, %v", said, err)
		}
	})
}

// pipeServer is a server without a network: connections are pipes, for tests with a
// clock of their own. It answers one request per connection.
type pipeServer struct {
	conns   chan net.Conn
	current atomic.Pointer[tls.Certificate]
}

func newPipeServer(t *testing.T) *pipeServer {
	s := &pipeServer{conns: make(chan net.Conn)}
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Said", r.Header.Get("Authorization"))
	})}
	web.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	web.SetKeepAlivesEnabled(false)
	ended := make(chan struct{})
	listener := tls.NewListener(s, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return s.current.Load(), nil
	}})
	go func() {
		defer close(ended)
		_ = web.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = web.Close()
		<-ended
		time.Sleep(time.Minute) // the pipe has no reader, and the program is given up in seconds
	})
	return s
}

// change gives the server another certificate, and returns it.
func (s *pipeServer) change(t *testing.T) []byte {
	pair, cert, _ := newPair(t, "server")
	s.current.Store(&pair)
	return cert
}

func (s *pipeServer) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	s.conns <- there
	return here, nil
}

func (s *pipeServer) Accept() (net.Conn, error) {
	conn, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (s *pipeServer) Close() error {
	close(s.conns)
	return nil
}

func (s *pipeServer) Addr() net.Addr { return &net.IPAddr{} }

func TestAllGroupsThatANodeNeedsAreThere(t *testing.T) {
	s := &server{}
	web := httptest.NewServer(s)
	defer web.Close()
	clients, err := New(Config{Kubeconfig: kubeconfig(t, web.URL, ""), UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c, ctx := clients.General, t.Context()
	for want, ask := range map[string]func() error{
		"/api/v1/nodes/n": func() error { _, err := c.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{}); return err },
		"/apis/coordination.k8s.io/v1/namespaces/x/leases/n": func() error {
			_, err := c.CoordinationV1().Leases("x").Get(ctx, "n", metav1.GetOptions{})
			return err
		},
		"/apis/node.k8s.io/v1/runtimeclasses/n": func() error {
			_, err := c.NodeV1().RuntimeClasses().Get(ctx, "n", metav1.GetOptions{})
			return err
		},
		"/apis/storage.k8s.io/v1/csinodes/n": func() error {
			_, err := c.StorageV1().CSINodes().Get(ctx, "n", metav1.GetOptions{})
			return err
		},
		"/apis/certificates.k8s.io/v1/certificatesigningrequests/n": func() error {
			_, err := c.CertificatesV1().CertificateSigningRequests().Get(ctx, "n", metav1.GetOptions{})
			return err
		},
		"/apis/authentication.k8s.io/v1/tokenreviews": func() error {
			_, err := c.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{}, metav1.CreateOptions{})
			return err
		},
		"/apis/authorization.k8s.io/v1/subjectaccessreviews": func() error {
			_, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := ask(); err == nil {
			t.Errorf("%s: nothing is there", want)
		}
		if got := s.last().URL.Path; got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
	}
}
