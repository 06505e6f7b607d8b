package cri

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// maxOutput is how much of a command's output is returned, in bytes.
const maxOutput = 16 << 10

// maxAnswerDelay is how much later than its timeout the runtime may report the end of a
// command. It has to kill the command first. A runtime that takes longer was not running
// itself meanwhile, and so can't know whether the command was late.
const maxAnswerDelay = 10 * time.Second

// Exec runs a command in a container and waits for its end. The runtime kills the
// command after timeout, and the error then is a context.DeadlineExceeded; without a
// timeout it may run for as long as ctx does. A command that fails is not an error
// of Exec: its exit code is returned.
//
// If the runtime does not answer, the error is a pod.ErrNoAnswer, which says nothing about the
// command. That is so if no answer came for c.timeout after the command's timeout, if the
// runtime does not answer a Version call either, or if it goes away or breaks off the call.
//
// The output is stdout followed by stderr, at most 16 KiB.
func (c *Client) Exec(
	ctx context.Context, containerID string, command []string, timeout time.Duration,
) (output []byte, exitCode int32, err error) {
	if len(command) == 0 {
		return nil, 0, fmt.Errorf("exec in container %s: there is no command", containerID)
	}
	if timeout < 0 {
		return nil, 0, fmt.Errorf("exec in container %s: there is no time left for the command: %w", containerID, context.DeadlineExceeded)
	}
	seconds := wholeSeconds(timeout) // as the runtime counts
	var call context.Context
	var cancel context.CancelFunc
	if timeout > 0 {
		call, cancel = context.WithTimeoutCause(ctx, time.Duration(seconds)*time.Second+c.timeout, pod.ErrNoAnswer)
	} else {
		call, cancel = c.whileAnswering(ctx)
	}
	defer cancel()
	began := time.Now()
	r, err := c.runtime.ExecSync(call, &runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: command, Timeout: seconds})
	switch {
	case err == nil:
		return truncateOutput(r.Stdout, r.Stderr), r.ExitCode, nil
	case ctx.Err() != nil:
		return nil, 0, fmt.Errorf("exec in container %s: %w", containerID, ctx.Err())
	case code(err) == codes.DeadlineExceeded && timeIsOver(ctx):
		return nil, 0, fmt.Errorf("exec in container %s: %w", containerID, context.DeadlineExceeded)
	case code(err) == codes.DeadlineExceeded && timeIsOver(call):
		return nil, 0, fmt.Errorf("exec in container %s: %w", containerID, pod.ErrNoAnswer)
	case call.Err() != nil:
		return nil, 0, fmt.Errorf("exec in container %s: %w", containerID, context.Cause(call))
	case code(err) == codes.DeadlineExceeded && timeout > 0 && time.Since(began) > timeout+maxAnswerDelay:
		return nil, 0, fmt.Errorf("exec in container %s: %w: the end of the command was reported after %s", containerID, pod.ErrNoAnswer, time.Since(began).Round(time.Second))
	case code(err) == codes.DeadlineExceeded:
		return nil, 0, fmt.Errorf("exec in container %s: the command did not end: %w", containerID, context.DeadlineExceeded)
	case code(err) == codes.Canceled:
		return nil, 0, fmt.Errorf("exec in container %s: %w: %w", containerID, pod.ErrNoAnswer, err)
	default:
		return nil, 0, fmt.Errorf("exec in container %s: %w", containerID, markUnanswered(call, err))
	}
}

// truncateOutput returns the beginnings of stdout and stderr, maxOutput in all. A flood on
// one of them leaves the other its half: the reason of a failure is often a single line on
// stderr.
func truncateOutput(stdout, stderr []byte) []byte {
	stdout = stdout[:min(len(stdout), maxOutput-min(len(stderr), maxOutput/2))]
	stderr = stderr[:min(len(stderr), maxOutput-len(stdout))]
	return slices.Concat(stdout, stderr)
}
