// Package client_test checks that the client of the node API, and a node that serves streams with the library of
// containerd, understand each other.
package client_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
	"berth/internal/api/localapi"
	"berth/internal/cli/clitest"
	"berth/test/streams"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// world is a node with pods, and an agent that serves its local API.
type world struct {
	streams.Node
	agent *clitest.Agent
}

// newWorld starts a node with pod web, in whose containers run runs. Functions of wrap stand before the node.
func newWorld(t *testing.T, run func(context.Context, streams.Process) error, wrap ...func(http.Handler) http.Handler) *world {
	t.Helper()
	w := &world{Node: streams.Node{Run: run}}
	w.agent = clitest.StartAgent(t, nil, func(c *localapi.Config) {
		c.Node = w.Handler()
		for _, f := range wrap {
			c.Node = f(c.Node)
		}
	})
	w.set(running())
	return w
}

// running returns pod web, whose container app runs.
func running() *v1.Pod { return clitest.RunningPod("x", "web", "app") }

func (w *world) set(pods ...*v1.Pod) { w.agent.Set(nil, pods...) }

// local is the way to w over a socket.
func (w *world) local(t *testing.T) *client.NodeAPI {
	t.Helper()
	c, err := client.New(w.agent.RootDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.NodeAPI()
}

// remote is the way to w over the network.
func (w *world) remote(t *testing.T) *client.NodeAPI {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", w.Handler())
	mux.HandleFunc("/pods", func(out http.ResponseWriter, _ *http.Request) {
		var list v1.PodList
		pods, _ := w.agent.List()
		for _, p := range pods {
			list.Items = append(list.Items, *p)
		}
		_ = json.NewEncoder(out).Encode(list)
	})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := client.NewRemote(client.Remote{Server: s.URL, CAFile: ca})
	if err != nil {
		t.Fatal(err)
	}
	return n.NodeAPI
}

func web(t *testing.T, n *client.NodeAPI) *v1.Pod {
	t.Helper()
	p, err := n.Pod(t.Context(), client.Filter{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("got error %v, want one with %q", err, p)
		}
	}
}
