package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxOutput is how much of a command's output is handed on.
const maxOutput = 16 << 10

// Exec runs a command in a container and waits for its end. The command is killed
// after timeout, and the error then is a context.DeadlineExceeded; without a
// timeout it may run for as long as ctx does. A command that fails is not an error
// of Exec: the exit code tells.
//
// The output is what was written to stdout, then to stderr, at most 16 KiB.
func (c *Client) Exec(
	ctx context.Context, containerID string, command []string, timeout time.Duration,
) (output []byte, exitCode int32, err error) {
	if len(command) == 0 {
		return nil, 0, fmt.Errorf("exec in container %s: there is no command", containerID)
	}
	if timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	// The deadline of the call is exact. The runtime is told as well, in its whole
	// seconds, because not every runtime kills a command whose caller is gone.
	r, err := c.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: command, Timeout: wholeSeconds(timeout)})
	switch {
	case err == nil:
		return joined(r.Stdout, r.Stderr), r.ExitCode, nil
	case code(err) == codes.DeadlineExceeded || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, 0, fmt.Errorf("exec in container %s: the command did not end: %w", containerID, context.DeadlineExceeded)
	case ctx.Err() != nil:
		return nil, 0, fmt.Errorf("exec in container %s: %w", containerID, ctx.Err())
	default:
		return nil, 0, fmt.Errorf("exec in container %s: %w", containerID, err)
	}
}

// joined returns the beginnings of both streams. A flood on one of them leaves
// the other its half: the reason of a failure is often a single line on stderr.
func joined(stdout, stderr []byte) []byte {
	stdout = stdout[:min(len(stdout), maxOutput-min(len(stderr), maxOutput/2))]
	stderr = stderr[:min(len(stderr), maxOutput-len(stdout))]
	return slices.Concat(stdout, stderr)
}
