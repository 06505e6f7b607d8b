package nodeapi

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	authenticationapi "k8s.io/api/authentication/v1"
	authorizationapi "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

// world is a node API on loopback, with a CA of clients, and a cluster that reviews their requests.
type world struct {
	t       *testing.T
	api     *API
	url     string // of the HTTPS port
	plain   string // of the port for everybody
	healthz string
	ca      *authority
	caFile  string
	cluster *clusterFake
	runtime *runtimeFake
	logs    string // the folder of logs
	sick    error  // what the check of the sync loop says
	ended   chan struct{}
	// sessions saves the handshakes of one client. Nil: there are none to save.
	sessions tls.ClientSessionCache
}

const (
	theUser  = "kube-apiserver-kubelet-client"
	theToken = "good-token"
	theUID   = pod.UID("uid-1")
)

// newWorld starts a node. change may be nil.
func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{
		t: t, ca: newAuthority(t, "clients"), caFile: filepath.Join(dir, "ca.crt"), logs: filepath.Join(dir, "logs"),
		cluster: &clusterFake{rights: map[string][]string{theUser: {"*"}}}, ended: make(chan struct{}),
	}
	w.runtime = newRuntimeFake(t)
	must(t, os.WriteFile(w.caFile, w.ca.pem, 0o600))
	must(t, os.MkdirAll(w.logs, 0o755))
	server := newAuthority(t, "node")
	serving := server.issue(t, "node", nil, x509.ExtKeyUsageServerAuth)

	c := Config{
		Node: "one", Version: "v1", Started: time.Now(), Pods: podsFake{}, Runtime: w.runtime, Logs: logsFake{w.logs}, Stats: statsFake{},
		Metrics: Metrics{Main: text("main"), Cadvisor: text("cadvisor"), Resource: text("resource"), Probes: text("probes"), SLIs: text("slis")},
		Checks: []Check{
			{Name: "log", Err: func(context.Context) error { return nil }},
			{Name: "syncloop", Err: func(context.Context) error { return w.sick }},
		},
		SandboxEnded: func(context.Context, pod.UID, string) <-chan struct{} { return w.ended },
		Configz:      map[string]string{"kind": "KubeletConfiguration"}, Flags: map[string]string{"v": "2"},
		SetVerbosity: func(int) error { return nil }, CheckpointDir: filepath.Join(dir, "checkpoints"), SystemLogDir: w.logs,
		Enabled: Enabled{Debugging: true, SystemLogs: true, Profiling: true, DebugFlags: true}, StreamIdle: time.Minute,
		Access: Access{
			ClientCA: w.caFile, Tokens: tokensFake{cluster: w.cluster}, TokenTTL: time.Minute,
			Reviews: reviewsFake{cluster: w.cluster}, AllowedTTL: time.Minute, DeniedTTL: time.Minute,
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
		config.Certificates = []tls.Certificate{w.ca.issue(w.t, name, groups, x509.ExtKeyUsageClientAuth)}
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

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) issue(t *testing.T, name string, groups []string, usage x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// clusterFake reviews tokens and access, and counts the reviews.
type clusterFake struct {
	mu sync.Mutex
	// rights are what a user may, as verb/subresource, or * for everything.
	rights  map[string][]string
	reviews []authorizationapi.SubjectAccessReviewSpec
	tokens  int
	down    bool
}

func (c *clusterFake) asked() (tokens, reviews int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens, len(c.reviews)
}

type tokensFake struct {
	authenticationv1.TokenReviewInterface
	cluster *clusterFake
}

func (f tokensFake) Create(_ context.Context, r *authenticationapi.TokenReview, _ metav1.CreateOptions) (*authenticationapi.TokenReview, error) {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.cluster.tokens++
	if f.cluster.down {
		return nil, fs.ErrClosed
	}
	if r.Spec.Token == theToken {
		r.Status = authenticationapi.TokenReviewStatus{Authenticated: true, User: authenticationapi.UserInfo{Username: "reader", Groups: []string{"g"}}}
	}
	return r, nil
}

type reviewsFake struct {
	authorizationv1.SubjectAccessReviewInterface
	cluster *clusterFake
}

func (f reviewsFake) Create(_ context.Context, r *authorizationapi.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationapi.SubjectAccessReview, error) {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.cluster.reviews = append(f.cluster.reviews, r.Spec)
	if f.cluster.down {
		return nil, fs.ErrClosed
	}
	has := f.cluster.rights[r.Spec.User]
	wants := r.Spec.ResourceAttributes
	r.Status.Allowed = slices.Contains(has, "*") || slices.Contains(has, wants.Verb+"/"+wants.Subresource)
	return r, nil
}

type podsFake struct{}

func (podsFake) List() ([]*v1.Pod, []pod.Refusal) {
	return []*v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: theUID},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: "slow"}}},
		Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
			{Name: "app", ContainerID: "containerd://c1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
			{Name: "slow", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
		}},
	}}, nil
}

type logsFake struct{ dir string }

func (l logsFake) LogPath(_ context.Context, _ pod.UID, id string) (string, <-chan struct{}, error) {
	return filepath.Join(l.dir, id), make(chan struct{}), nil
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

// runtimeFake serves streams with the very library that containerd does.
type runtimeFake struct {
	server  streaming.Server
	headers chan http.Header // of the requests for streams, if a test reads them
}

func newRuntimeFake(t *testing.T) *runtimeFake {
	t.Helper()
	f := &runtimeFake{headers: make(chan http.Header, 100)}
	var handler http.Handler
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case f.headers <- r.Header.Clone():
		default:
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(backend.Close)
	base, err := url.Parse(backend.URL)
	must(t, err)
	config := streaming.DefaultConfig
	config.BaseURL = base
	f.server, err = streaming.NewServer(config, processes{})
	must(t, err)
	handler = f.server
	return f
}

func (f *runtimeFake) Observe(context.Context, pod.UID) (pod.Observed, error) {
	return pod.Observed{
		UID: theUID, Name: "web", Namespace: "default", Sandboxes: []pod.Sandbox{{ID: "s1", State: pod.SandboxReady}},
		Containers: []pod.Container{{ID: "c1", Name: "app", Image: "localhost/app:1", State: pod.ContainerRunning}},
	}, nil
}

func (f *runtimeFake) All(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	one, err := f.Observe(ctx, theUID)
	return map[pod.UID]*pod.Observed{theUID: &one, "dead": {UID: "dead", Name: "dead"}}, err
}

func (f *runtimeFake) ExecURL(_ context.Context, id string, command []string, s cri.Streams) (string, error) {
	r, err := f.server.GetExec(&runtimeapi.ExecRequest{ContainerId: id, Cmd: command, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	return r.GetUrl(), err
}

func (f *runtimeFake) AttachURL(_ context.Context, id string, s cri.Streams) (string, error) {
	r, err := f.server.GetAttach(&runtimeapi.AttachRequest{ContainerId: id, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	return r.GetUrl(), err
}

func (f *runtimeFake) PortForwardURL(_ context.Context, id string, ports ...int32) (string, error) {
	r, err := f.server.GetPortForward(&runtimeapi.PortForwardRequest{PodSandboxId: id, Port: ports})
	return r.GetUrl(), err
}

func (f *runtimeFake) Exec(_ context.Context, _ string, command []string, _ time.Duration) ([]byte, int32, error) {
	if command[0] == "false" {
		return []byte("no"), 1, nil
	}
	return []byte(command[0]), 0, nil
}

func (f *runtimeFake) Checkpoint(context.Context, string, string, time.Duration) error { return nil }

// processes run the commands of tests: cat, exit with 7, or print the size of the terminal.
type processes struct{}

func (processes) Exec(_ context.Context, _ string, command []string, in io.Reader, out, _ io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize) error {
	switch command[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "size":
		size := <-resize
		_, err := fmt.Fprintf(out, "%dx%d", size.Width, size.Height)
		return err
	default:
		return utilexec.CodeExitError{Err: fmt.Errorf("exit status 7"), Code: 7}
	}
}

func (p processes) Attach(ctx context.Context, id string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return p.Exec(ctx, id, []string{"cat"}, in, out, err, tty, resize)
}

// PortForward echoes, after the number of the port.
func (processes) PortForward(_ context.Context, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	if _, err := fmt.Fprintf(stream, "%d:", port); err != nil {
		return err
	}
	_, err := io.Copy(stream, stream)
	return err
}
