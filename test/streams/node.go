// Package streams has a node whose processes and ports are functions of a test. It serves exec, attach and
// portForward in the protocols of the kubelet, with the same library as containerd. Tests of streams are in the
// folders below: of the node API, of its client, and of the commands.
package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// Process is the fake process of a container.
type Process struct {
	Pod, Container string
	Command        []string // nil: it is attached to
	In             io.Reader
	Out, Err       io.Writer
	TTY            bool
	Sizes          <-chan remotecommand.TerminalSize
}

// Node has the behaviour that tests give it.
type Node struct {
	// Run runs a process, or is attached to one.
	Run func(context.Context, Process) error
	// Dial connects to a port of a pod.
	Dial func(port int32) (net.Conn, error)
}

// Exit is how a process ends that fails.
func Exit(code int) error {
	return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
}

// OnThisMachine runs the command of p here, in a folder.
func OnThisMachine(ctx context.Context, folder string, p Process) error {
	c := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = folder, p.In, p.Out, p.Err
	err := c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return Exit(exit.ExitCode())
	}
	return err
}

const timeout = time.Minute // of streams that tests forget

// Handler serves the API.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		o, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, n, r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"], o, timeout, timeout, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		o, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeAttach(w, r, n, r.PathValue("pod"), "", r.PathValue("container"), o, timeout, timeout, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		portforward.ServePortForward(w, r, n, r.PathValue("pod"), "", &portforward.V4Options{}, timeout, timeout, portforward.SupportedProtocols)
	})
	return mux
}

// ExecInContainer implements remotecommand.Executor.
func (n *Node) ExecInContainer(
	ctx context.Context, pod, _, container string, command []string, in io.Reader, out, err io.WriteCloser, tty bool,
	sizes <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	return n.Run(ctx, Process{pod, container, command, in, out, err, tty, sizes})
}

// AttachContainer implements remotecommand.Attacher.
func (n *Node) AttachContainer(
	ctx context.Context, pod, _, container string, in io.Reader, out, err io.WriteCloser, tty bool, sizes <-chan remotecommand.TerminalSize,
) error {
	return n.Run(ctx, Process{pod, container, nil, in, out, err, tty, sizes})
}

// PortForward implements portforward.PortForwarder.
func (n *Node) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := n.Dial(port)
	if err != nil {
		// Not before the client speaks: it takes a faster refusal for something else.
		_, _ = stream.Read(make([]byte, 1))
		return err
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.Close()
	}()
	_, err = io.Copy(stream, conn)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
