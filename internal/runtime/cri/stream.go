package cri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The runtime serves streams itself. Whoever wants one asks here for its URL, which
// is good once and for a short time.

// Streams are those of a process that somebody wants to be connected to.
type Streams struct{ Stdin, Stdout, Stderr, TTY bool }

// stderr tells whether it is a stream of its own: a terminal has only one output,
// and runtimes refuse to be asked for both.
func (s Streams) stderr() bool { return s.Stderr && !s.TTY }

// ExecURL is where to run a command in a container.
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

// AttachURL is where to connect to the main process of a container.
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

// PortForwardURL is where to connect to ports of a pod. Without ports, the one who
// connects names them.
func (c *Client) PortForwardURL(ctx context.Context, sandboxID string, ports ...int32) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	if err != nil {
		return "", fmt.Errorf("ask for ports of sandbox %s: %w", sandboxID, err)
	}
	return r.GetUrl(), nil
}
