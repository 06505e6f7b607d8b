package client_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
)

// forwarding is a forward that runs.
type forwarding struct {
	t     *testing.T
	out   *bufio.Reader
	ended chan error
}

// forward forwards any port to port 80 of pod web.
func forward(t *testing.T, n *client.NodeAPI) *forwarding {
	t.Helper()
	r, w := io.Pipe()
	f := &forwarding{t: t, out: bufio.NewReader(r), ended: make(chan error, 1)}
	p := web(t, n)
	go func() {
		f.ended <- n.Forward(t.Context(), p, client.Forward{Addresses: []string{"127.0.0.1"}, Ports: []string{":80"}, Out: w, Err: io.Discard})
		_ = w.Close()
	}()
	return f
}

// address waits until it listens, and returns where.
func (f *forwarding) address() string {
	f.t.Helper()
	line, err := f.out.ReadString('\n')
	if err != nil {
		f.t.Fatal(err, <-f.ended)
	}
	rest, _ := strings.CutPrefix(line, "Forwarding from ")
	address, to, _ := strings.Cut(rest, " -> ")
	if to != "80\n" {
		f.t.Fatalf("got %q", line)
	}
	go func() { _, _ = io.Copy(io.Discard, f.out) }()
	return address
}

func TestForward(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	t.Cleanup(site.Close)
	w := newWorld(t, nil)
	w.Dial = func(port int32) (net.Conn, error) {
		if port != 80 {
			return nil, errors.New("wrong port")
		}
		return net.Dial("tcp", site.Listener.Addr().String())
	}
	local := w.local(t)
	for name, n := range map[string]*client.NodeAPI{"over the socket": local, "over the network": w.remote(t)} {
		t.Run(name, func(t *testing.T) {
			f := forward(t, n)
			address := f.address()
			for range 3 {
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				r, err := client.Get("http://" + address)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if err != nil || string(text) != "hello" {
					t.Errorf("got %q, %v", text, err)
				}
			}
		})
	}
}

func TestAForwardEndsWithItsPod(t *testing.T) {
	replaced := running()
	replaced.UID = "u-2"
	restarted := running()
	restarted.Status.PodIP = "10.0.0.2"
	finished := running()
	finished.Status.Phase = v1.PodSucceeded
	for want, now := range map[string][]*v1.Pod{
		"lost connection to pod; the pod web was restarted":             {restarted},
		"lost connection to pod; the pod web was replaced by a new one": {replaced},
		"lost connection to pod; the pod web has ended":                 {finished},
		"lost connection to pod; the pod web is gone":                   nil,
	} {
		w := newWorld(t, nil)
		n := w.local(t)
		f := forward(t, n)
		f.address()
		w.set(now...)
		if err := <-f.ended; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAForwardThatFails(t *testing.T) {
	refused := func(int32) (net.Conn, error) { return nil, errors.New("connection refused") }
	again := running()
	again.Status.ContainerStatuses[0].RestartCount = 1
	replaced := running()
	replaced.UID = "u-2"
	waits := running()
	waits.Status.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for want, now := range map[string]*v1.Pod{
		"lost connection to pod; the pod web was restarted":                     again,
		"lost connection to pod; the pod web was replaced by a new one":         replaced,
		"lost connection to pod; container app of pod web is waiting":           waits,
		"lost connection to pod; the pod web runs: does it listen on that port": running(),
	} {
		w := newWorld(t, nil)
		w.Dial = refused
		n := w.remote(t) // which has no watch
		f := forward(t, n)
		address := f.address()
		w.set(now)
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("anybody there?")); err != nil {
			t.Fatal(err)
		}
		if err := <-f.ended; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		_ = c.Close()
	}
	ended := running()
	ended.Status.Phase = v1.PodFailed
	n := newWorld(t, nil).local(t)
	wantError(t, n.Forward(t.Context(), ended, client.Forward{}), "pod web has ended")
}
