package nodeapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/websocket"
	protocol "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"berth/internal/lib/run"
)

// proxyTunnel proxies a port-forward whose client tunnels SPDY through a WebSocket.
func (a *API) proxyTunnel(w http.ResponseWriter, r *http.Request, location *url.URL) error {
	const inner = protocol.PortForwardV1Name
	runtime, answer, err := dialSPDY(r, location, inner)
	if err != nil {
		return err
	}
	defer func() { _ = runtime.Close() }()

	upgrader := websocket.Upgrader{
		Subprotocols: []string{protocol.WebsocketsSPDYTunnelingPrefix + inner},
		CheckOrigin:  func(*http.Request) bool { return true }, // clients are no browsers, and are authenticated
	}
	socket, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		a.Log.Debug("a WebSocket could not be opened", "from", r.RemoteAddr, "err", err)
		return nil // the library has answered
	}
	client := portforward.NewTunnelingConnection("server", socket)
	defer func() { _ = client.Close() }()

	// When one side ends, the other is closed.
	group := run.NewGroup(r.Context(), a.Log)
	ended := make(chan struct{}, 2)
	copyTo := func(to io.Writer, from io.Reader) func() {
		return func() {
			_, _ = io.Copy(to, from)
			ended <- struct{}{}
		}
	}
	for name, copyAll := range map[string]func(){"to the runtime": copyTo(runtime, client), "to the client": copyTo(client, answer)} {
		group.Go("port-forward "+name, func(context.Context) { copyAll() })
	}
	select {
	case <-ended:
	case <-r.Context().Done():
	}
	_, _ = runtime.Close(), client.Close()
	group.Stop()
	return nil
}

// dialSPDY opens a SPDY connection to the runtime. Data of the runtime is read from the returned reader,
// which may have buffered some.
func dialSPDY(r *http.Request, location *url.URL, version string) (net.Conn, *bufio.Reader, error) {
	conn, err := proxy.DialURL(r.Context(), location, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the runtime: %w", err)
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, location.String(), nil)
	if err == nil {
		request.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
		request.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
		request.Header.Set(httpstream.HeaderProtocolVersion, version)
		err = request.Write(conn)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("ask the runtime for a port-forward: %w", err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("ask the runtime for a port-forward: %w", err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		defer func() { _ = response.Body.Close() }()
		message, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		_ = conn.Close()
		return nil, nil, fmt.Errorf("ask the runtime for a port-forward: it says %s: %s", response.Status, strings.TrimSpace(string(message)))
	}
	return conn, reader, nil
}
