package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/runtime/cri"
)

// The runtime serves exec, attach and port-forward itself: it returns a URL, and the node API proxies
// the connection of the client to that URL. The runtime knows SPDY, and WebSocket up to the protocol
// v4. Newer protocols are translated into SPDY: v5.go, tunnel.go.

// serveExec runs a command in a container.
func (a *API) serveExec(w http.ResponseWriter, r *http.Request) error {
	s, err := parseStreams(r.URL.Query())
	if err != nil {
		return err
	}
	command := r.URL.Query()["command"]
	if len(command) == 0 {
		return problemf(http.StatusBadRequest, "there is no command: give it as ?command=...")
	}
	id, err := a.runningContainer(r)
	if err != nil {
		return err
	}
	to, err := a.Runtime.ExecURL(r.Context(), id, command, s)
	if err != nil {
		return err
	}
	a.countWebSocket(r, "exec")
	return a.proxyStream(w, r, to, s)
}

// countWebSocket counts a stream if it is over WebSocket.
func (a *API) countWebSocket(r *http.Request, subresource string) {
	if a.OnWebSocket != nil && wsstream.IsWebSocketRequest(r) {
		a.OnWebSocket(subresource)
	}
}

// serveAttach connects to the main process of a container.
func (a *API) serveAttach(w http.ResponseWriter, r *http.Request) error {
	s, err := parseStreams(r.URL.Query())
	if err != nil {
		return err
	}
	id, err := a.runningContainer(r)
	if err != nil {
		return err
	}
	to, err := a.Runtime.AttachURL(r.Context(), id, s)
	if err != nil {
		return err
	}
	a.countWebSocket(r, "attach")
	return a.proxyStream(w, r, to, s)
}

// parseStreams parses which streams a client asks for, by the query parameters of the kubelet (input)
// or of the API server (stdin).
func parseStreams(q url.Values) (cri.Streams, error) {
	is := func(names ...string) bool {
		for _, name := range names {
			if v := q.Get(name); v == "1" || v == "true" {
				return true
			}
		}
		return false
	}
	s := cri.Streams{Stdin: is("input", "stdin"), Stdout: is("output", "stdout"), Stderr: is("error", "stderr"), TTY: is("tty")}
	if s.TTY {
		s.Stderr = false // a terminal has one output
	}
	if !s.Stdin && !s.Stdout && !s.Stderr {
		return s, problemf(http.StatusBadRequest, "you must specify at least 1 of stdin, stdout, stderr")
	}
	return s, nil
}

// proxyStream connects a client of exec or attach to a streaming URL of the runtime.
func (a *API) proxyStream(w http.ResponseWriter, r *http.Request, to string, s cri.Streams) error {
	location, err := url.Parse(to)
	if err != nil {
		return fmt.Errorf("the runtime gave a URL that is none: %w", err)
	}
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		a.proxyV5(w, r, location, s)
		return nil
	}
	a.proxyUpgrade(w, r, location)
	return nil
}

// proxyUpgrade proxies a connection whose protocol the runtime knows.
func (a *API) proxyUpgrade(w http.ResponseWriter, r *http.Request, location *url.URL) {
	const wrapTransport, upgradeRequired = false, true
	proxy.NewUpgradeAwareHandler(location, nil, wrapTransport, upgradeRequired, responder{}).ServeHTTP(w, r)
}

// responder answers a request that can't be proxied.
type responder struct{}

func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	if strings.Contains(err.Error(), "Upgrade request required") {
		err = problemf(http.StatusBadRequest, "Upgrade request required")
	}
	fail(w, err)
}

// servePortForward connects to ports of a pod.
func (a *API) servePortForward(w http.ResponseWriter, r *http.Request) error {
	ports, err := parsePorts(r)
	if err != nil {
		return err
	}
	p, err := a.findPod(r)
	if err != nil {
		return err
	}
	have, err := a.Runtime.Observe(r.Context(), p.UID)
	if err != nil {
		return err
	}
	sandbox := have.Sandbox()
	if sandbox == nil || sandbox.State != pod.SandboxReady {
		return problemf(http.StatusNotFound, "pod %q does not run", p.Name)
	}
	to, err := a.Runtime.PortForwardURL(r.Context(), sandbox.ID, ports...)
	if err != nil {
		return err
	}
	location, err := url.Parse(to)
	if err != nil {
		return fmt.Errorf("the runtime gave a URL that is none: %w", err)
	}
	a.countWebSocket(r, "portforward")
	w, r, done := a.untilSandboxEnds(w, r, p.UID, sandbox.ID)
	defer done()
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		return a.proxyTunnel(w, r, location)
	}
	a.proxyUpgrade(w, r, location)
	return nil
}

// untilSandboxEnds makes a stream end together with its sandbox. Otherwise a client would go on to
// use the dead connection. done has to be called after the stream.
func (a *API) untilSandboxEnds(w http.ResponseWriter, r *http.Request, uid pod.UID, id string) (_ http.ResponseWriter, _ *http.Request, done func()) {
	s, isStream := w.(*streamWriter)
	if a.SandboxEnded == nil || !isStream {
		return w, r, func() {}
	}
	ctx, cancel := context.WithCancel(r.Context())
	group := run.NewGroup(ctx, a.Log)
	ended := a.SandboxEnded(ctx, uid, id)
	group.Go("end of sandbox "+id, func(ctx context.Context) {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	})
	own := *s
	own.ctx = ctx
	return &own, r.WithContext(ctx), func() {
		cancel()
		group.Stop()
	}
}

// maxPorts is how many ports one WebSocket may forward: each port has two channels, and the number of
// a channel is a byte.
const maxPorts = 127

// parsePorts parses the ports in the query of a port-forward over WebSocket without a tunnel. Other
// protocols name the port with each stream.
func parsePorts(r *http.Request) ([]int32, error) {
	if !wsstream.IsWebSocketRequest(r) || wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		return nil, nil
	}
	var out []int32
	for _, given := range r.URL.Query()["port"] {
		for text := range strings.SplitSeq(given, ",") {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil || n == 0 {
				return nil, problemf(http.StatusBadRequest, "%q is not a port", text)
			}
			out = append(out, int32(n)) // it has 16 bits
		}
	}
	if len(out) == 0 || len(out) > maxPorts {
		return nil, problemf(http.StatusBadRequest, "query parameter \"port\" is required, at most %d times", maxPorts)
	}
	return out, nil
}

// serveRun runs a command in a container and answers with its output.
func (a *API) serveRun(w http.ResponseWriter, r *http.Request) error {
	command := strings.Fields(r.FormValue("cmd"))
	if len(command) == 0 {
		return problemf(http.StatusBadRequest, "there is no command: give it as ?cmd=...")
	}
	// The body was read: the command may take longer than the deadline of reads.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	id, err := a.runningContainer(r)
	if err != nil {
		return err
	}
	output, code, err := a.Runtime.Exec(r.Context(), id, command, 0)
	if err != nil {
		return err
	}
	if code != 0 {
		return problemf(http.StatusInternalServerError, "command '%s' exited with %d: %s", strings.Join(command, " "), code, output)
	}
	sendText(w, string(output))
	return nil
}
