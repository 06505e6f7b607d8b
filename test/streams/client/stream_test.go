package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"

	"berth/internal/api/client"
	"berth/test/streams"
)

// shell implements the commands that tests run in a container.
func shell(ctx context.Context, p streams.Process) error {
	switch p.Command[0] {
	case "size":
		s := <-p.Sizes
		_, err := fmt.Fprintf(p.Out, "%d x %d, terminal %t\r\n", s.Width, s.Height, p.TTY)
		return err
	case "refused":
		return errors.New("failed to start exec: no such container")
	}
	return streams.OnThisMachine(ctx, "/", p)
}

type sizes []remotecommand.TerminalSize

func (s *sizes) Next() *remotecommand.TerminalSize {
	if len(*s) == 0 {
		return nil
	}
	next := (*s)[0]
	*s = (*s)[1:]
	return &next
}

func TestExec(t *testing.T) {
	w := newWorld(t, shell)
	local := w.local(t)
	for name, n := range map[string]*client.NodeAPI{"over the socket": local, "over the network": w.remote(t)} {
		t.Run(name, func(t *testing.T) {
			p := web(t, n)
			var out, stderr bytes.Buffer
			err := n.Exec(t.Context(), p, "app", []string{"sh", "-c", "cat; echo oops >&2; exit 3"}, remotecommand.StreamOptions{Stdin: strings.NewReader("typed"), Stdout: &out, Stderr: &stderr})
			var exit *client.ExitError
			if !errors.As(err, &exit) || exit.Code != 3 || out.String() != "typed" || stderr.String() != "oops\n" {
				t.Errorf("got %v, %q, %q", err, out.String(), stderr.String())
			}
			out.Reset()
			if err := n.Exec(t.Context(), p, "app", []string{"echo", "a b", "-c"}, remotecommand.StreamOptions{Stdout: &out}); err != nil || out.String() != "a b -c\n" {
				t.Errorf("got %v, %q", err, out.String())
			}
			out.Reset()
			size := &sizes{{Width: 80, Height: 24}}
			err = n.Exec(t.Context(), p, "app", []string{"size"}, remotecommand.StreamOptions{Stdout: &out, Stderr: &stderr, Tty: true, TerminalSizeQueue: size})
			if err != nil || out.String() != "80 x 24, terminal true\r\n" {
				t.Errorf("got %v, %q", err, out.String())
			}
			err = n.Exec(t.Context(), p, "app", []string{"refused"}, remotecommand.StreamOptions{Stdout: &out})
			wantError(t, err, "no such container")
		})
	}
}

func TestAttach(t *testing.T) {
	w := newWorld(t, func(_ context.Context, p streams.Process) error {
		_, err := fmt.Fprintln(p.Out, p.Pod, p.Container, len(p.Command))
		return err
	})
	n := w.local(t)
	var out bytes.Buffer
	if err := n.Attach(t.Context(), web(t, n), "app", remotecommand.StreamOptions{Stdout: &out}); err != nil || out.String() != "web-node-1 app 0\n" {
		t.Errorf("got %v, %q", err, out.String())
	}
}

func TestABrokenConnectionIsNoSuccess(t *testing.T) {
	// Given a process whose exit status is never sent
	hijacked := make(chan net.Conn, 1)
	run := func(context.Context, streams.Process) error { return (<-hijacked).Close() }
	w := newWorld(t, run, func(node http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { node.ServeHTTP(hijackable{w, hijacked}, r) })
	})
	n := w.local(t)
	// When the connection breaks
	err := n.Exec(t.Context(), web(t, n), "app", []string{"sleep"}, remotecommand.StreamOptions{Stdout: io.Discard})
	// Then the error says so
	wantError(t, err, "the connection was lost")
}

// hijackable sends the connection of a request to a test when it is hijacked.
type hijackable struct {
	http.ResponseWriter
	hijacked chan<- net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil {
		h.hijacked <- conn
	}
	return conn, buffered, err
}

func TestExecIsInterrupted(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, func(_ context.Context, p streams.Process) error {
		close(started)
		_, err := io.Copy(io.Discard, p.In) // until the client goes
		return err
	})
	n := w.local(t)
	ctx, cancel := context.WithCancel(t.Context())
	in, typed := io.Pipe()
	t.Cleanup(func() { _ = typed.Close() })
	p := web(t, n)
	ended := make(chan error, 1)
	go func() {
		ended <- n.Exec(ctx, p, "app", []string{"cat"}, remotecommand.StreamOptions{Stdin: in, Stdout: io.Discard})
	}()
	<-started
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestContainersThatDoNotRun(t *testing.T) {
	w := newWorld(t, func(_ context.Context, _ streams.Process) error { return errors.New("task not found") })
	n := w.local(t)
	exec := func() error {
		return n.Exec(t.Context(), web(t, n), "app", []string{"ls"}, remotecommand.StreamOptions{Stdout: io.Discard})
	}
	with := func(s v1.ContainerState) *v1.Pod {
		p := running()
		p.Status.ContainerStatuses[0].State = s
		return p
	}
	w.set(with(v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}}))
	wantError(t, exec(), "container app of pod web is waiting: CrashLoopBackOff; see 'berth logs web -c app -p'")
	w.set(with(v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}))
	wantError(t, exec(), "container app of pod web is waiting: ErrImagePull: not found; see 'berth describe pod web'")
	w.set(with(v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 4}}))
	wantError(t, exec(), "container app of pod web has ended with exit code 4; see 'berth logs web -c app'")
	w.set(with(v1.ContainerState{}))
	wantError(t, exec(), "container app of pod web does not run")

	// It ends between the look and the call
	w.set(running())
	p := web(t, n)
	w.set(with(v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 5}}))
	wantError(t, n.Exec(t.Context(), p, "app", []string{"ls"}, remotecommand.StreamOptions{Stdout: io.Discard}), "has ended with exit code 5")

	w.set()
	_, err := n.Pod(t.Context(), client.Filter{Name: "web"})
	wantError(t, err, `pod "web" not found`)
}
