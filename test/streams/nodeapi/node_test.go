// Package nodeapi_test checks that exec, attach and port-forward go through the node API, between the clients that
// Kubernetes has and the streaming server that containerd has.
package nodeapi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"berth/internal/api/nodeapi"
	"berth/internal/api/nodeapi/nodeapitest"
	"berth/internal/lib/pod"
)

// node is a node API on loopback, in front of a runtime that serves streams.
type node struct {
	api     *nodeapi.API
	url     string
	ca      *nodeapitest.Authority // of the certificates of clients
	cluster *nodeapitest.Cluster
	runtime *runtime
	ended   chan struct{} // a test closes it when the sandbox has ended
}

// admin is the name of the client that the cluster allows everything.
const admin = "kube-apiserver-kubelet-client"

// startNode starts a node. Functions of change change its configuration.
func startNode(t *testing.T, change ...func(*nodeapi.Config)) *node {
	t.Helper()
	n := &node{ca: nodeapitest.NewAuthority(t, "clients"), cluster: nodeapitest.NewCluster(admin), runtime: startRuntime(t), ended: make(chan struct{})}
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(caFile, n.ca.PEM, 0o600))
	serving := nodeapitest.NewAuthority(t, "node").Issue(t, "node", nil, x509.ExtKeyUsageServerAuth)
	c := nodeapi.Config{
		Node: "one", Pods: nodeapitest.Pods{}, Runtime: n.runtime, Logs: nodeapitest.Logs{},
		SandboxEnded: func(context.Context, pod.UID, string) <-chan struct{} { return n.ended },
		Enabled:      nodeapi.Enabled{Debugging: true}, StreamIdle: time.Minute,
		Access: nodeapi.Access{
			ClientCA: caFile, Tokens: n.cluster.TokenReviews(), TokenTTL: time.Minute,
			Reviews: n.cluster.AccessReviews(), AllowedTTL: time.Minute, DeniedTTL: time.Minute,
		},
		TLS: nodeapi.TLS{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &serving, nil }},
		Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	n.api, err = nodeapi.New(c)
	must(t, err)
	l := listen(t)
	n.url = "https://" + l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- n.api.Serve(ctx, nodeapi.Listeners{Secure: l}) }()
	t.Cleanup(func() {
		stop()
		must(t, <-served)
		must(t, n.api.Close())
	})
	return n
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// config returns a client-go configuration for the user who may do everything.
func (n *node) config(t *testing.T) *rest.Config {
	t.Helper()
	pair := n.ca.Issue(t, admin, nil, x509.ExtKeyUsageClientAuth)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must(t, err)
	return &rest.Config{Host: n.url, TLSClientConfig: rest.TLSClientConfig{
		Insecure: true,
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}
}

func (n *node) target(t *testing.T, path string) *url.URL {
	t.Helper()
	u, err := url.Parse(n.url + path)
	must(t, err)
	return u
}

// executors speak all protocols that there are.
func (n *node) executors(t *testing.T, path string) map[string]remotecommand.Executor {
	t.Helper()
	out := map[string]remotecommand.Executor{}
	var err error
	out["SPDY"], err = remotecommand.NewSPDYExecutor(n.config(t), http.MethodPost, n.target(t, path))
	must(t, err)
	out["WebSocket v5"], err = remotecommand.NewWebSocketExecutor(n.config(t), http.MethodGet, n.url+path)
	must(t, err)
	out["WebSocket v4"], err = remotecommand.NewWebSocketExecutorForProtocols(n.config(t), http.MethodGet, n.url+path, protocol.StreamProtocolV4Name)
	must(t, err)
	return out
}
