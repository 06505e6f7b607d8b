package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"
	"time"

	"berth/internal/lib/printable"
	"berth/internal/pods/handler"
)

const (
	// tries is how often a check is made whose outcome is Unknown.
	tries = 3
	// maxOutput bounds the output that is kept and shown, in bytes.
	maxOutput = 1 << 10
	// maxRead bounds the output that is read, in bytes.
	maxRead = 10 << 10
)

// checkResult is the outcome and the output of one check.
type checkResult struct {
	outcome Outcome
	output  string
	warning bool // a success with a warning event, such as a redirect to another host
}

func success(output string) checkResult { return checkResult{outcome: Success, output: output} }
func failure(output string) checkResult { return checkResult{outcome: Failure, output: output} }
func unknown(output string) checkResult { return checkResult{outcome: Unknown, output: output} }

// connectionFailure returns a Failure for an error while connecting to a container. If this machine is
// out of sockets or memory it returns Unknown: that is no reason to restart a container.
func connectionFailure(words string, err error) checkResult {
	for _, ours := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, ours) {
			return unknown(words)
		}
	}
	return failure(words)
}

// check makes a check, a few times if its outcome is Unknown. took does not include the wait for a
// slot.
func (m *Manager) check(ctx context.Context, q checkRequest) (a checkResult, took time.Duration) {
	if q.probe.Exec != nil {
		slot, err := m.slots.acquire(ctx, q.target.Pod.UID, q.kind)
		if err != nil {
			return unknown(err.Error()), 0
		}
		defer m.slots.release(slot)
	}
	began := time.Now()
	for range tries {
		a = m.checkOnce(ctx, q)
		// No retry after the timeout of the probe: a runtime that hangs would be called forever.
		if a.outcome != Unknown || ctx.Err() != nil || time.Since(began) > settingsOf(q.probe).timeout {
			break
		}
	}
	a.output = sanitize(a.output)
	return a, time.Since(began)
}

// sanitize bounds the output of a container and makes it printable.
func sanitize(text string) string {
	return printable.Head(printable.OneLine(text[:min(len(text), maxRead)]), maxOutput)
}

// checkOnce makes a check by the handler of the probe.
func (m *Manager) checkOnce(ctx context.Context, q checkRequest) checkResult {
	timeout := settingsOf(q.probe).timeout
	switch p := q.probe; {
	case p.Exec != nil:
		return m.command(ctx, q, p.Exec.Command, timeout)
	case p.HTTPGet != nil:
		return m.httpGet(ctx, q, p.HTTPGet, timeout)
	case p.TCPSocket != nil:
		at, err := handler.Address(q.target, p.TCPSocket.Host, p.TCPSocket.Port)
		if err != nil {
			return unknown(err.Error())
		}
		return connect(ctx, at, timeout)
	case p.GRPC != nil:
		return grpcHealth(ctx, q, p.GRPC, timeout)
	default:
		return unknown("the probe asks for nothing: set one of exec, httpGet, tcpSocket, grpc")
	}
}

// command succeeds with exit code 0.
func (m *Manager) command(ctx context.Context, q checkRequest, command []string, timeout time.Duration) checkResult {
	if len(command) == 0 {
		return unknown("the command is empty")
	}
	if m.config.Expand != nil {
		command = m.config.Expand(q.target.Container, command)
	}
	output, exitCode, err := m.config.Exec(ctx, q.target.ContainerID, command, timeout)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failure(fmt.Sprintf("command timed out: %q timed out after %s", strings.Join(command, " "), timeout))
	case err != nil:
		return unknown(withoutIDs(m.config.Explain(err)))
	case exitCode == 0:
		return success(string(output))
	case len(output) == 0:
		return failure(fmt.Sprintf("the command ended with exit code %d and said nothing", exitCode))
	default:
		return failure(string(output))
	}
}

// withoutIDs removes the exec IDs that a runtime generates, so that the same failure has the same
// text.
func withoutIDs(text string) string {
	return regexp.MustCompile(` ?"?\b[0-9a-f]{64}\b"?`).ReplaceAllString(text, "")
}

// connect succeeds if the port accepts a TCP connection.
func connect(ctx context.Context, at string, timeout time.Duration) checkResult {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return connectionFailure(err.Error(), err)
	}
	conn.Close()
	return success("connected to " + at)
}
