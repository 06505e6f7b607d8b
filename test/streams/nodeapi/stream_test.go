package nodeapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"

	"berth/internal/api/nodeapi"
	"berth/internal/api/nodeapi/nodeapitest"
)

func TestACommandHasItsStreamsAndItsExitCode(t *testing.T) {
	t.Parallel()
	var webSockets atomic.Int32
	n := startNode(t, func(c *nodeapi.Config) {
		c.OnWebSocket = func(subresource string) {
			if subresource == "exec" {
				webSockets.Add(1)
			}
		}
	})
	for name, e := range n.executors(t, "/exec/default/web/app?command=exit&output=1&error=1") {
		var exit utilexec.CodeExitError
		if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard}); !errors.As(err, &exit) || exit.Code != 7 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := webSockets.Load(); got != 2 {
		t.Errorf("%d streams count as WebSocket, want 2", got)
	}
	large := strings.Repeat("0123456789abcdef", 16<<10)
	for _, path := range []string{"/exec/default/web/uid-1/app?command=cat&input=1&output=1", "/attach/default/web/app?stdin=true&stdout=true"} {
		executors := n.executors(t, path)
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
	n := startNode(t)
	for name, e := range n.executors(t, "/exec/default/web/app?command=size&input=1&output=1&error=1&tty=1") {
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
	n := startNode(t)
	n.cluster.Allow("reader", "create/proxy")
	c := n.config(t)
	c.CertData, c.KeyData, c.BearerToken = nil, nil, nodeapitest.Token
	e, err := remotecommand.NewSPDYExecutor(c, http.MethodPost, n.target(t, "/exec/default/web/app?command=cat&input=1&output=1"))
	must(t, err)
	must(t, e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("x"), Stdout: io.Discard}))
	if h := <-n.runtime.headers; h.Get("Authorization") != "" || h.Get("Upgrade") == "" {
		t.Errorf("it got %v", h)
	}
}

func TestPortsOfAPod(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	target := n.target(t, "/portForward/default/web")
	tripper, upgrader, err := spdy.RoundTripperFor(n.config(t))
	must(t, err)
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(target, n.config(t))
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
	close(n.ended)
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

func TestStreamsEndWithTheAgent(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	// Given another server of the same API, with a command that waits for its input.
	ctx, stop := context.WithCancel(t.Context())
	l := nodeapi.Listeners{Secure: listen(t)}
	served := make(chan error, 1)
	go func() { served <- n.api.Serve(ctx, l) }()
	n.url = "https://" + l.Secure.Addr().String()
	e, err := remotecommand.NewSPDYExecutor(n.config(t), http.MethodPost, n.target(t, "/exec/default/web/app?command=cat&input=1&output=1"))
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

func TestAClientThatGoesIsNoError(t *testing.T) {
	t.Parallel()
	// given a log, and a client that runs a command
	lines := make(logLines, 100)
	n := startNode(t, func(c *nodeapi.Config) {
		c.Log = slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	server := httptest.NewServer(n.api.Local())
	t.Cleanup(server.Close)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
	must(t, err)
	_, err = io.WriteString(conn, "POST /exec/default/web/app?command=cat&input=1&output=1 HTTP/1.1\r\nHost: x\r\n"+
		"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n")
	must(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(answer.Status)
	}
	// when it breaks off
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("got a %T", conn)
	}
	must(t, tcp.SetLinger(0))
	must(t, conn.Close())
	// then that is a detail
	for late := time.After(10 * time.Second); ; {
		select {
		case line := <-lines:
			if !strings.Contains(line, " level=DEBUG ") {
				t.Errorf("it says %s", line)
			}
			if strings.Contains(line, "connection reset by peer") {
				return
			}
		case <-late:
			t.Fatal("it is not in the log")
		}
	}
}

// logLines are the lines of a log.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// The streaming server has the connection by then: it refuses the protocol, and the client is answered.
func TestAnUpgradeToNonsenseIsAnswered(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	server := httptest.NewServer(n.api.Local())
	t.Cleanup(server.Close)
	for _, path := range []string{"/exec/default/web/app?command=cat&output=1", "/attach/default/web/app?output=1", "/portForward/default/web"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, nil)
		must(t, err)
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "nonsense/9")
		response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %s", path, response.Status)
		}
	}
}
