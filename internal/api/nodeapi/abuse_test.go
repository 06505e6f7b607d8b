package nodeapi

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// raw returns a TLS connection with a small receive buffer, which only the test reads from.
func (w *world) raw(t *testing.T, cert tls.Certificate) net.Conn {
	t.Helper()
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		}},
		// whom the client talks to is not what is tested
		Config: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}, ClientSessionCache: w.sessions},
	}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "https://"))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestAClientThatOpensManyStreamsAndReadsNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.sessions = tls.NewLRUClientSessionCache(1)
	line := strings.Repeat("x", 8<<10)
	w.writeLog(slices.Repeat([]string{line}, 200)...) // more than the buffers of the kernel hold
	cert := w.ca.Issue(t, theUser, nil, x509.ExtKeyUsageClientAuth)
	before, heap := runtime.NumGoroutine(), heapInUse()

	// Given a client that follows as many logs as it may, and reads none.
	var open []net.Conn
	for range defaultStreams {
		conn := w.raw(t, cert)
		_, err := io.WriteString(conn, "GET /containerLogs/default/web/app?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		open = append(open, conn)
	}
	await(t, "it has its share", func() bool { return w.api.streams.count() == defaultStreamsPerUser })

	// Then it gets no more, and the others are served: their answers and their streams.
	if code, _ := ask(t, w.client(theUser), http.MethodGet, w.url+"/containerLogs/default/web/app"); code != http.StatusTooManyRequests {
		t.Errorf("one more: %d", code)
	}
	w.allow("other", "*")
	for _, path := range []string{"/pods", "/metrics", "/containerLogs/default/web/app?tailLines=1"} {
		if code, body := ask(t, w.client("other"), http.MethodGet, w.url+path); code != http.StatusOK {
			t.Errorf("another client, %s: %d %s", path, code, body)
		}
	}
	perStream := (float64(heapInUse()) - float64(heap)) / defaultStreams
	goroutines := float64(runtime.NumGoroutine()-before) / defaultStreams
	t.Logf("a stream that nobody reads takes %.0f KiB and %.1f goroutines, the client's part included", perStream/1024, goroutines)
	if perStream > 256<<10 || goroutines > 6 {
		t.Error("that is too much")
	}

	// When it goes, all that it had goes.
	for _, conn := range open {
		_ = conn.Close()
	}
	await(t, "nothing is left of it", func() bool { return w.api.streams.count() == 0 })
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Limits.HeaderTimeout = 100 * time.Millisecond })
	for name, sent := range map[string]string{
		"nothing":       "",
		"half a header": "GET /pods HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"half a body":   "POST /stats/summary HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc",
		"half a form":   "POST /run/default/web/app HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ncmd=",
	} {
		for who, cert := range map[string]tls.Certificate{"a user": w.ca.Issue(t, theUser, nil, x509.ExtKeyUsageClientAuth), "nobody": {}} {
			conn := w.raw(t, cert)
			_, err := io.WriteString(conn, sent)
			must(t, err)
			must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
			if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
				t.Errorf("%s who sends %s is waited for", who, name)
			}
		}
	}
	// Nor is one waited for that does not even begin with TLS.
	conn := w.dial(t)
	must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
		t.Error("a connection that says nothing is waited for")
	}
}

func isTimeout(err error) bool {
	t, ok := err.(net.Error) //nolint:errorlint // a connection gives it bare
	return ok && t.Timeout()
}

func (w *world) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "https://"))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	const most = 5
	w := newWorld(t, func(c *Config) { c.Limits.ConnectionsPerIP = most })
	var held []net.Conn
	for range most {
		held = append(held, w.dial(t))
	}
	extra := w.dial(t)
	must(t, extra.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := extra.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("one too many is not closed: %v", err)
	}
	_ = held[0].Close()
	await(t, "there is room again", func() bool {
		transport := w.transport(theUser)
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get(w.url + "/healthz") // a test
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

func TestGarbageIsNoHarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Limits.HeaderTimeout = time.Second })
	noise := make([]byte, 4096)
	_, err := rand.Read(noise)
	must(t, err)
	cert := w.ca.Issue(t, theUser, nil, x509.ExtKeyUsageClientAuth)
	for name, sent := range map[string]string{
		"noise":            string(noise),
		"no version":       "GET /pods\r\n\r\n",
		"a huge header":    "GET /pods HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 2*defaultHeaderBytes) + "\r\n\r\n",
		"a huge token":     "GET /pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + strings.Repeat("a", 2*maxTokenBytes) + "\r\nConnection: close\r\n\r\n",
		"a huge body":      fmt.Sprintf("PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 2*defaultBodyBytes, strings.Repeat("9", 2*defaultBodyBytes)),
		"a lying length":   "POST /run/default/web/app HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
		"two lengths":      "POST /run/default/web/app HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
		"a broken upgrade": "GET /exec/default/web/app?command=cat&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\nConnection: close\r\n\r\n",
		"a strange one":    "POST /exec/default/web/app?command=cat&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: nonsense/9\r\n\r\n",
		"an HTTP/2":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"a CONNECT":        "CONNECT /pods/../configz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
	} {
		conn := w.raw(t, cert)
		_, _ = io.WriteString(conn, sent) // it may be cut off while it sends
		must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		got, err := io.ReadAll(io.LimitReader(conn, 1<<20))
		if isTimeout(err) || strings.HasPrefix(string(got), "HTTP/1.1 200") && name != "a huge token" {
			t.Errorf("%s: %v %.200q", name, err, got)
		}
		bare := w.dial(t)
		_, _ = io.WriteString(bare, sent)
	}
	if code, _ := ask(t, w.client(theUser), http.MethodGet, w.url+"/pods"); code != http.StatusOK {
		t.Errorf("after all that: %d", code)
	}
}

func TestHeadersAndBodiesAreAsLargeAsTheyMayBe(t *testing.T) {
	t.Parallel()
	const most = 8 << 10
	w := newWorld(t, func(c *Config) { c.Limits.HeaderBytes, c.Limits.BodyBytes = most, 1 })
	client := w.client(theUser)
	for size, want := range map[int]int{most / 2: http.StatusOK, 3 * most: http.StatusRequestHeaderFieldsTooLarge} {
		if code, body := ask(t, client, http.MethodGet, w.url+"/pods", "X", strings.Repeat("a", size)); code != want {
			t.Errorf("a header of %d bytes: %d %q", size, code, body)
		}
	}
	for body, want := range map[string]int{"4": http.StatusOK, "10": http.StatusBadRequest} {
		if code, answer := w.local(t, http.MethodPut, "/debug/flags/v", body); code != want {
			t.Errorf("a body of %d bytes: %d %q", len(body), code, answer)
		}
	}
}

func TestAnAnswerThatIsNotReadIsGivenUp(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	w := newWorld(t, func(c *Config) {
		c.Limits.AnswerTimeout = 200 * time.Millisecond
		c.Metrics.Main = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			began <- struct{}{}
			_, err := io.CopyN(w, zeros{}, 1<<30)
			ended <- err
		})
	})
	conn := w.raw(t, w.ca.Issue(t, theUser, nil, x509.ExtKeyUsageClientAuth))
	_, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	<-began
	select {
	case err := <-ended:
		if err == nil {
			t.Error("all was written")
		}
	case <-time.After(10 * time.Second):
		t.Error("it is still being written")
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
