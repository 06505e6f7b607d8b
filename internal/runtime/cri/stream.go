package cri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The runtime serves the streams of exec, attach and port-forward itself. The functions of
// this file return a URL, which can be used once and for a short time.

// Streams says which streams of a process to connect to.
type Streams struct{ Stdin, Stdout, Stderr, TTY bool }

// stderr reports whether stderr is a stream of its own: a terminal has only one output, and
// runtimes refuse requests with both.
func (s Streams) stderr() bool { return s.Stderr && !s.TTY }

// ExecURL returns the URL of a stream that runs a command in a container.
func (c *Client) ExecURL(ctx context.Context, containerID string, command []string, s Streams) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: containerID, Cmd: command, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.stderr(),
	})
	if err != nil {
		return "", fmt.Errorf("ask for exec in container %s: %w", containerID, err)
	}
	return r.GetUrl(), nil
}

// AttachURL returns the URL of a stream to the main process of a container.
func (c *Client) AttachURL(ctx context.Context, containerID string, s Streams) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: containerID, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.stderr(),
	})
	if err != nil {
		return "", fmt.Errorf("ask to attach to container %s: %w", containerID, err)
	}
	return r.GetUrl(), nil
}

// PortForwardURL returns the URL of a stream to ports of a pod. Without ports, the client
// of the stream names them.
func (c *Client) PortForwardURL(ctx context.Context, sandboxID string, ports ...int32) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	if err != nil {
		return "", fmt.Errorf("ask for ports of sandbox %s: %w", sandboxID, err)
	}
	return r.GetUrl(), nil
}
