//go:build real

package kit

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"berth/test/lab"
	"berth/test/lab/control"
	"berth/test/lab/proxy"
)

// ProxiedNode is a node whose connections and requests to the API server go through proxies, which can break them.
type ProxiedNode struct {
	Node        *lab.Node
	Connections *proxy.TCP
	Requests    *proxy.API
}

// JoinThroughProxy joins a node whose connections go through one proxy, and its requests through
// another behind that.
func JoinThroughProxy(t *testing.T, plane *lab.Lab, name string) *ProxiedNode {
	t.Helper()
	return JoinThroughProxyAs(t, plane, lab.NodeConfig{Name: name}, nil)
}

// JoinThroughProxyAs is JoinThroughProxy for a node with settings of its own, and for a fault from
// the start.
func JoinThroughProxyAs(t *testing.T, plane *lab.Lab, c lab.NodeConfig, fault proxy.Fault) *ProxiedNode {
	t.Helper()
	name := c.Name
	address, port := plane.Address(), "7443"
	certificate, err := plane.ServerCertificate("faulty", net.ParseIP(address))
	Must(t, err)
	upstream, err := plane.RESTConfig(control.Node(name))
	Must(t, err)
	inner, err := plane.Namespace().Listen(t.Context(), "tcp", "127.0.0.1:0")
	Must(t, err)
	requests, err := proxy.NewAPI(inner, certificate, upstream)
	Must(t, err)
	t.Cleanup(requests.Close)
	if fault != nil {
		requests.Break(fault)
	}
	outer, err := plane.Namespace().Listen(t.Context(), "tcp", net.JoinHostPort(address, port))
	Must(t, err)
	connections := proxy.NewTCP(outer, plane.Namespace().Dial, inner.Addr().String())
	t.Cleanup(connections.Close)

	c.Kubeconfig = filepath.Join(plane.Dir(), "faulty.kubeconfig")
	Must(t, plane.WriteKubeconfig(c.Kubeconfig, control.Node(name), "https://"+connections.Address()))
	return &ProxiedNode{JoinNodeAs(t, plane, c), connections, requests}
}

// WriteStatus refuses a request as an API server does.
func WriteStatus(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	fmt.Fprint(w, StatusBody(code, reason))
}

// StatusBody is the body of the answer of an API server that refuses a request.
func StatusBody(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the test says so","reason":%q,"code":%d}`, reason, code)
}
