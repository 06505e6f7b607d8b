package probe

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/pods/handler"
)

// checkOf probes a container on loopback once, and returns the result.
func checkOf(t *testing.T, h v1.ProbeHandler, ports ...v1.ContainerPort) checkResult {
	t.Helper()
	return checkWithin(t, 20, h, ports...) // a busy machine needs some of them
}

// checkWithin is checkOf with a timeout in seconds.
func checkWithin(t *testing.T, seconds int32, h v1.ProbeHandler, ports ...v1.ContainerPort) checkResult {
	t.Helper()
	w := newWorld(t, "")
	a, _ := w.check(t.Context(), checkRequest{
		kind: readiness, probe: &v1.Probe{ProbeHandler: h, TimeoutSeconds: seconds},
		target: handler.Target{Pod: web("a", nil, nil, nil), Container: &v1.Container{Name: "app", Ports: ports}, PodIP: "127.0.0.1"},
	})
	return a
}

func wantAnswer(t *testing.T, a checkResult, outcome Outcome, words ...string) {
	t.Helper()
	if a.outcome != outcome {
		t.Errorf("outcome %s, want %s; output: %s", a.outcome, outcome, a.output)
	}
	for _, word := range words {
		if !strings.Contains(a.output, word) {
			t.Errorf("output %q lacks %q", a.output, word)
		}
	}
}

// serve starts a server and returns its port.
func serve(t testing.TB, tls bool, handle http.HandlerFunc) int32 {
	t.Helper()
	s := httptest.NewUnstartedServer(handle)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return portOf(t, s.Listener)
}

func portOf(t testing.TB, l net.Listener) int32 {
	t.Helper()
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%s is no address of TCP", l.Addr())
	}
	return int32(at.Port)
}

// listen accepts connections, hands them to do, and closes them at the end of the test.
func listen(t *testing.T, do func(net.Conn)) int32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			do(conn)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return portOf(t, l)
}

func mute(net.Conn) {}

// closedPort returns a port without a listener.
func closedPort(t *testing.T) int32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return portOf(t, l)
}

func httpGet(port int32, path string) v1.ProbeHandler {
	return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(port), Path: path, Scheme: v1.URISchemeHTTP}}
}

func tcp(port intstr.IntOrString) v1.ProbeHandler {
	return v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: port}}
}

func TestTCP(t *testing.T) {
	open := listen(t, mute)
	named := v1.ContainerPort{Name: "db", ContainerPort: open}
	wantAnswer(t, checkOf(t, tcp(intstr.FromInt32(open))), Success, "connected to 127.0.0.1:")
	wantAnswer(t, checkOf(t, tcp(intstr.FromString("db")), named), Success)
	wantAnswer(t, checkOf(t, tcp(intstr.FromString("web")), named), Unknown, `port "web" is unknown: the container's ports are db`)
	wantAnswer(t, checkOf(t, tcp(intstr.FromInt32(closedPort(t)))), Failure, "dial tcp 127.0.0.1:", "connection refused")
	wantAnswer(t, checkOf(t, v1.ProbeHandler{}), Unknown, "the probe asks for nothing")
	wantAnswer(t, checkOf(t, v1.ProbeHandler{Exec: &v1.ExecAction{}}), Unknown, "the command is empty")
}

func TestAPodWithoutAnAddressIsNotBlamed(t *testing.T) {
	w := newWorld(t, "")
	for _, h := range []v1.ProbeHandler{tcp(intstr.FromInt32(80)), httpGet(80, "/"), {GRPC: &v1.GRPCAction{Port: 80}}} {
		a, _ := w.check(t.Context(), checkRequest{probe: &v1.Probe{ProbeHandler: h}, target: handler.Target{Pod: &v1.Pod{}, Container: &v1.Container{}}})
		wantAnswer(t, a, Unknown, "the pod has no address yet")
	}
}

func TestWhatThisMachineLacksIsNoFailureOfTheContainer(t *testing.T) {
	err := &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	wantAnswer(t, connectionFailure(err.Error(), err), Unknown, "too many open files")
	err.Err = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	wantAnswer(t, connectionFailure(err.Error(), err), Failure, "refused")
}
