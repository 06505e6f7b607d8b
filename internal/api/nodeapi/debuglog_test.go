package nodeapi

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
)

// logBuffer is a log in memory.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (d *logBuffer) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(b)
}

func (d *logBuffer) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

func TestDetailsOfStreamsAreLoggedAtDebugLevel(t *testing.T) {
	t.Parallel()
	var log logBuffer
	quiet := logr.FromSlogHandler(debugHandler{slog.NewTextHandler(&log, nil)})
	quiet.Error(io.EOF, "a stream broke off")
	quiet.WithName("x").WithValues("a", 1).Info("something else")
	if got := log.String(); got != "" {
		t.Errorf("it says %s", got)
	}
}

func TestAClientThatGoesIsNoError(t *testing.T) {
	t.Parallel()
	// given a log, and a client that runs a command
	var log logBuffer
	w := newWorld(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	server := httptest.NewServer(w.api.Local())
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
	await(t, "it is logged", func() bool { return strings.Contains(log.String(), "connection reset by peer") })
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, " level=DEBUG ") {
			t.Errorf("it says %s", line)
		}
	}
}
