package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// forwarding is a forward that runs.
type forwarding struct {
	t     *testing.T
	out   *bufio.Reader
	ended chan error
}

// forward forwards any port to port 80 of pod web.
func forward(t *testing.T, n *NodeAPI) *forwarding {
	t.Helper()
	r, w := io.Pipe()
	f := &forwarding{t: t, out: bufio.NewReader(r), ended: make(chan error, 1)}
	p := web(t, n)
	go func() {
		f.ended <- n.Forward(t.Context(), p, Forward{Addresses: []string{"127.0.0.1"}, Ports: []string{":80"}, Out: w, Err: io.Discard})
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
	w := newWorld(nil)
	w.Dial = func(port int32) (net.Conn, error) {
		if port != 80 {
			return nil, errors.New("wrong port")
		}
		return net.Dial("tcp", site.Listener.Addr().String())
	}
	local, _ := w.local(t)
	for name, n := range map[string]*NodeAPI{"over the socket": local, "over the network": w.remote(t)} {
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
	replaced := running("web")
	replaced.UID = "u-2"
	restarted := running("web")
	restarted.Status.PodIP = "10.0.0.2"
	finished := running("web")
	finished.Status.Phase = v1.PodSucceeded
	for want, now := range map[string][]v1.Pod{
		"lost connection to pod; the pod web was restarted":             {restarted},
		"lost connection to pod; the pod web was replaced by a new one": {replaced},
		"lost connection to pod; the pod web has ended":                 {finished},
		"lost connection to pod; the pod web is gone":                   nil,
	} {
		w := newWorld(nil)
		n, _ := w.local(t)
		f := forward(t, n)
		f.address()
		w.set(now...)
		if err := <-f.ended; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The connection breaks when the pod goes. A watcher of the pod may notice that before the forward
// reads the reason.
func TestAForwardThatIsLostNamesTheEndOfItsPod(t *testing.T) {
	w := newWorld(nil)
	n, _ := w.local(t)
	ctx, end := context.WithCancelCause(t.Context())
	end(lost("the pod web is gone"))
	p := running("web")
	if err := n.whyLost(ctx, &p); err == nil || err.Error() != "lost connection to pod; the pod web is gone" {
		t.Errorf("got %v", err)
	}
}

func TestAForwardThatFails(t *testing.T) {
	refused := func(int32) (net.Conn, error) { return nil, errors.New("connection refused") }
	again := running("web")
	again.Status.ContainerStatuses[0].RestartCount = 1
	replaced := running("web")
	replaced.UID = "u-2"
	waits := running("web")
	waits.Status.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for want, now := range map[string]v1.Pod{
		"lost connection to pod; the pod web was restarted":                     again,
		"lost connection to pod; the pod web was replaced by a new one":         replaced,
		"lost connection to pod; container app of pod web is waiting":           waits,
		"lost connection to pod; the pod web runs: does it listen on that port": running("web"),
	} {
		w := newWorld(nil)
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
	ended := running("web")
	ended.Status.Phase = v1.PodFailed
	n, _ := newWorld(nil).local(t)
	wantError(t, n.Forward(t.Context(), &ended, Forward{}), "pod web has ended")
}
