package nodeapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

// config returns a client-go configuration for the user who may do everything.
func (w *world) config(t *testing.T) *rest.Config {
	t.Helper()
	pair := w.ca.issue(t, theUser, nil, x509.ExtKeyUsageClientAuth)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must(t, err)
	return &rest.Config{Host: w.url, TLSClientConfig: rest.TLSClientConfig{
		Insecure: true,
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}
}

func (w *world) target(t *testing.T, path string) *url.URL {
	t.Helper()
	u, err := url.Parse(w.url + path)
	must(t, err)
	return u
}

// executors speak all protocols that there are.
func (w *world) executors(t *testing.T, path string) map[string]remotecommand.Executor {
	t.Helper()
	out := map[string]remotecommand.Executor{}
	var err error
	out["SPDY"], err = remotecommand.NewSPDYExecutor(w.config(t), http.MethodPost, w.target(t, path))
	must(t, err)
	out["WebSocket v5"], err = remotecommand.NewWebSocketExecutor(w.config(t), http.MethodGet, w.url+path)
	must(t, err)
	out["WebSocket v4"], err = remotecommand.NewWebSocketExecutorForProtocols(w.config(t), http.MethodGet, w.url+path, protocol.StreamProtocolV4Name)
	must(t, err)
	return out
}

func TestACommandHasItsStreamsAndItsExitCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for name, e := range w.executors(t, "/exec/default/web/app?command=exit&output=1&error=1") {
		var exit utilexec.CodeExitError
		if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard}); !errors.As(err, &exit) || exit.Code != 7 {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := strings.Repeat("0123456789abcdef", 16<<10)
	for _, path := range []string{"/exec/default/web/uid-1/app?command=cat&input=1&output=1", "/attach/default/web/app?stdin=true&stdout=true"} {
		executors := w.executors(t, path)
		delete(executors, "WebSocket v4") // it can't say that stdin has ended
		for name, e := range executors {
			var out bytes.Buffer
			err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(large), Stdout: &out})
			if err != nil || out.String() != large {
				t.Errorf("%s %s: %v, %d bytes", name, path, err, out.Len())
			}
		}
	}
}

func TestATerminalHasASize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for name, e := range w.executors(t, "/exec/default/web/app?command=size&input=1&output=1&error=1&tty=1") {
		var out bytes.Buffer
		stdin, open := io.Pipe() // without input
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: stdin, Stdout: &out, Tty: true, TerminalSizeQueue: &oneSize{}})
		_ = open.Close()
		if err != nil || out.String() != "80x24" {
			t.Errorf("%s: %v %q", name, err, out.String())
		}
	}
}

type oneSize struct{ sent bool }

func (s *oneSize) Next() *remotecommand.TerminalSize {
	if s.sent {
		return nil
	}
	s.sent = true
	return &remotecommand.TerminalSize{Width: 80, Height: 24}
}

func TestTheRuntimeDoesNotLearnTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.allow("reader", "create/proxy")
	c := w.config(t)
	c.CertData, c.KeyData, c.BearerToken = nil, nil, theToken
	e, err := remotecommand.NewSPDYExecutor(c, http.MethodPost, w.target(t, "/exec/default/web/app?command=cat&input=1&output=1"))
	must(t, err)
	must(t, e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("x"), Stdout: io.Discard}))
	if h := <-w.runtime.headers; h.Get("Authorization") != "" || h.Get("Upgrade") == "" {
		t.Errorf("it got %v", h)
	}
}

func TestPortsOfAPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	target := w.target(t, "/portForward/default/web")
	tripper, upgrader, err := spdy.RoundTripperFor(w.config(t))
	must(t, err)
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(target, w.config(t))
	must(t, err)
	direct := spdy.NewDialer(upgrader, &http.Client{Transport: tripper}, http.MethodPost, target)
	ends := map[string]chan error{}
	for _, name := range []string{"SPDY", "SPDY in a WebSocket"} {
		ready := make(chan struct{})
		dialer := direct
		if name != "SPDY" {
			dialer = tunnel
		}
		f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:8080"}, nil, ready, io.Discard, io.Discard)
		must(t, err)
		ends[name] = make(chan error, 1)
		go func() { ends[name] <- f.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-ends[name]:
			t.Fatalf("%s: %v", name, err)
		}
		ports, err := f.GetPorts()
		must(t, err)
		if got := echo(t, int(ports[0].Local), "hello"); got != "8080:hello" {
			t.Errorf("%s: %q", name, got)
		}
	}
	// The pod is started anew: clients learn that their way has ended.
	close(w.ended)
	for name, end := range ends {
		select {
		case err := <-end:
			if !errors.Is(err, portforward.ErrLostConnectionToPod) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the client got no answer", name)
		}
	}
}

func echo(t *testing.T, port int, text string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	must(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	must(t, err)
	if tcp, ok := conn.(*net.TCPConn); ok {
		must(t, tcp.CloseWrite())
	}
	out, err := io.ReadAll(conn)
	must(t, err)
	return string(out)
}

func TestALogIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.writeLog("first")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/containerLogs/default/web/app?follow=true", nil)
	must(t, err)
	response, err := w.client(theUser).Do(request)
	must(t, err)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for i, want := range []string{"first\n", "second\n"} {
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("line %d: %q %v", i, got, err)
		}
		file, err := os.OpenFile(filepath.Join(w.logs, "c1"), os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = io.WriteString(file, "2026-01-02T03:04:06.000000000Z stdout F second\n")
		must(t, errors.Join(err, file.Close()))
	}
}

func TestStreamsEndWithTheAgent(t *testing.T) {
	t.Parallel()
	var api *API
	w := newWorld(t, nil)
	api = w.api
	// Given another server of the same API, with a command that waits for its input.
	ctx, stop := context.WithCancel(t.Context())
	l := Listeners{Secure: listen(t)}
	served := make(chan error, 1)
	go func() { served <- api.Serve(ctx, l) }()
	w.url = "https://" + l.Secure.Addr().String()
	e, err := remotecommand.NewSPDYExecutor(w.config(t), http.MethodPost, w.target(t, "/exec/default/web/app?command=cat&input=1&output=1"))
	must(t, err)
	stdin, typed := io.Pipe()
	out, shown := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: stdin, Stdout: shown})
	}()
	_, err = io.WriteString(typed, "x")
	must(t, err)
	_, err = out.Read(make([]byte, 1))
	must(t, err)
	// When the agent ends, then so does the command's stream.
	stop()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the stream goes on")
	}
	must(t, <-served)
}
