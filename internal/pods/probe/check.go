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
	// tries is how often a check is made that can't be made.
	tries = 3
	// maxOutput bounds what is kept and shown of an answer.
	maxOutput = 1 << 10
	// maxRead bounds what is read of an answer.
	maxRead = 10 << 10
)

// checkResult is what came of asking.
type checkResult struct {
	outcome Outcome
	output  string
	warning bool // it is a success, and yet not what one would expect
}

func success(output string) checkResult { return checkResult{outcome: Success, output: output} }
func failure(output string) checkResult { return checkResult{outcome: Failure, output: output} }
func unknown(output string) checkResult { return checkResult{outcome: Unknown, output: output} }

// connectionFailure is what an error on the way to the container says about it: usually that
// it does not answer. But if this machine has run out of something, no container
// is to be restarted for that.
func connectionFailure(words string, err error) checkResult {
	for _, ours := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, ours) {
			return unknown(words)
		}
	}
	return failure(words)
}

// check asks until there is an answer, a few times at most. It also tells how
// long that took; the wait for a slot does not count.
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
		// What took longer than the probe may take is not asked again: a runtime that hangs
		// would be asked for ever.
		if a.outcome != Unknown || ctx.Err() != nil || time.Since(began) > settingsOf(q.probe).timeout {
			break
		}
	}
	a.output = sanitize(a.output)
	return a, time.Since(began)
}

// sanitize is the text of an answer as it may be shown: whoever is probed may say
// anything, and at any length.
func sanitize(text string) string {
	return printable.Head(printable.OneLine(text[:min(len(text), maxRead)]), maxOutput)
}

// checkOnce asks once.
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

// withoutIDs leaves out the names that a runtime makes up, one for each command that
// it runs: what goes wrong in the same way should read the same.
func withoutIDs(text string) string {
	return regexp.MustCompile(` ?"?\b[0-9a-f]{64}\b"?`).ReplaceAllString(text, "")
}

// connect succeeds when somebody listens.
func connect(ctx context.Context, at string, timeout time.Duration) checkResult {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return connectionFailure(err.Error(), err)
	}
	conn.Close()
	return success("connected to " + at)
}
