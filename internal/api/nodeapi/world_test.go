package nodeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/api/nodeapi/nodeapitest"
)

// world is a node API on loopback, with a CA of clients, and a cluster that reviews their requests.
type world struct {
	t       *testing.T
	api     *API
	url     string // of the HTTPS port
	plain   string // of the port for everybody
	healthz string
	ca      *nodeapitest.Authority
	caFile  string
	cluster *nodeapitest.Cluster
	logs    string // the folder of logs
	sick    error  // what the check of the sync loop says
	// sessions saves the handshakes of one client. Nil: there are none to save.
	sessions tls.ClientSessionCache
}

const (
	theUser  = "kube-apiserver-kubelet-client"
	theToken = nodeapitest.Token
	theUID   = nodeapitest.UID
)

// newWorld starts a node. change may be nil.
func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{
		t: t, ca: nodeapitest.NewAuthority(t, "clients"), caFile: filepath.Join(dir, "ca.crt"), logs: filepath.Join(dir, "logs"),
		cluster: nodeapitest.NewCluster(theUser),
	}
	must(t, os.WriteFile(w.caFile, w.ca.PEM, 0o600))
	must(t, os.MkdirAll(w.logs, 0o755))
	serving := nodeapitest.NewAuthority(t, "node").Issue(t, "node", nil, x509.ExtKeyUsageServerAuth)
	streams := httptest.NewServer(http.HandlerFunc(refuseUpgrade))
	t.Cleanup(streams.Close)

	c := Config{
		Node: "one", Version: "v1", Started: time.Now(),
		Pods: nodeapitest.Pods{}, Runtime: nodeapitest.Runtime{StreamURL: streams.URL}, Logs: nodeapitest.Logs{Dir: w.logs}, Stats: statsFake{},
		Metrics: Metrics{Main: text("main"), Cadvisor: text("cadvisor"), Resource: text("resource"), Probes: text("probes"), SLIs: text("slis")},
		Checks: []Check{
			{Name: "log", Err: func(context.Context) error { return nil }},
			{Name: "syncloop", Err: func(context.Context) error { return w.sick }},
		},
		Configz: map[string]string{"kind": "KubeletConfiguration"}, Flags: map[string]string{"v": "2"},
		SetVerbosity: func(int) error { return nil }, CheckpointDir: filepath.Join(dir, "checkpoints"), SystemLogDir: w.logs,
		Enabled: Enabled{Debugging: true, SystemLogs: true, Profiling: true, DebugFlags: true}, StreamIdle: time.Minute,
		Access: Access{
			ClientCA: w.caFile, Tokens: w.cluster.TokenReviews(), TokenTTL: time.Minute,
			Reviews: w.cluster.AccessReviews(), AllowedTTL: time.Minute, DeniedTTL: time.Minute,
		},
		TLS: TLS{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &serving, nil }},
		Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&c)
	}
	var err error
	w.api, err = New(c)
	must(t, err)
	listeners := Listeners{Secure: listen(t), ReadOnly: listen(t), Healthz: listen(t)}
	w.url, w.plain, w.healthz = "https://"+listeners.Secure.Addr().String(), "http://"+listeners.ReadOnly.Addr().String(), "http://"+listeners.Healthz.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.api.Serve(ctx, listeners) }()
	t.Cleanup(func() {
		stop()
		must(t, <-served)
		must(t, w.api.Close())
	})
	return w
}

// refuseUpgrade answers as a streaming server of a runtime does to requests that it does not understand.
func refuseUpgrade(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "unable to upgrade", http.StatusBadRequest)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := Listen(t.Context(), Addresses{Address: netip.MustParseAddr("127.0.0.1"), Port: freePort(t)})
	must(t, err)
	return l.Secure
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // it is closed at once
	must(t, err)
	defer l.Close()
	return int(netip.MustParseAddrPort(l.Addr().String()).Port())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// client returns a client with a certificate of that name and these groups, or without one if name
// is empty.
func (w *world) client(name string, groups ...string) *http.Client {
	w.t.Helper()
	return &http.Client{Transport: w.transport(name, groups...)}
}

func (w *world) transport(name string, groups ...string) *http.Transport {
	w.t.Helper()
	config := &tls.Config{InsecureSkipVerify: true} // whom the client talks to is not what is tested
	if name != "" {
		config.Certificates = []tls.Certificate{w.ca.Issue(w.t, name, groups, x509.ExtKeyUsageClientAuth)}
	}
	transport := &http.Transport{TLSClientConfig: config}
	w.t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// ask makes a request and returns the code and the body of the answer.
func ask(t *testing.T, client *http.Client, method, url string, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

// writeLog gives the container a log.
func (w *world) writeLog(lines ...string) {
	w.t.Helper()
	var all bytes.Buffer
	for _, l := range lines {
		fmt.Fprintf(&all, "2026-01-02T03:04:05.000000000Z stdout F %s\n", l)
	}
	must(w.t, os.WriteFile(filepath.Join(w.logs, "c1"), all.Bytes(), 0o600))
}

type statsFake struct{}

func (statsFake) Summary(_ context.Context, only bool) (*statsv1alpha1.Summary, error) {
	s := &statsv1alpha1.Summary{Node: statsv1alpha1.NodeStats{NodeName: "one"}}
	if !only {
		s.Node.Fs = &statsv1alpha1.FsStats{}
	}
	return s, nil
}

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) })
}
