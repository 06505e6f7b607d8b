// Package hook runs the lifecycle hooks of containers: postStart and preStop.
//
// A hook is a command in the container, an HTTP request, a TCP connection, or a sleep. The package
// runs it once and returns its error. It decides neither when a hook runs nor what a failure means;
// the timeout of a hook is the deadline of its context, so that a preStop hook and the stop signal
// after it can share one.
//
// Nothing is kept between two hooks: no connection, no goroutine.
//
// Probes reach containers in the same way: see package handler.
package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/printable"
	"berth/internal/pods/handler"
)

// Exec runs a command in a container and returns its output and exit code. Timeout zero: only the
// deadline of ctx counts.
type Exec func(ctx context.Context, containerID string, command []string, timeout time.Duration) (output []byte, exitCode int32, err error)

// Config is checked by New.
type Config struct {
	Exec    Exec
	Explain func(error) string // the text of an error of Exec for users
	// OnFallback is called for an HTTPS hook that was answered once more, without TLS: its server speaks plain HTTP. It may be nil.
	OnFallback func(p *v1.Pod, host string)
	// SleepCutShort is called for each sleep that ended before its time. It may be nil.
	SleepCutShort func()
	Log           *slog.Logger
}

// Runner runs hooks. It may be used from several goroutines.
type Runner struct {
	exec      Exec
	explain   func(error) string
	cutShort  func()
	fallback  func(p *v1.Pod, host string)
	log       *slog.Logger
	transport *http.Transport
}

// New checks the configuration.
func New(c Config) (*Runner, error) {
	var err error
	if c.Exec == nil {
		err = errors.Join(err, errors.New("there is no way to run a command in a container"))
	}
	if c.Explain == nil {
		err = errors.Join(err, errors.New("there is nothing that explains errors"))
	}
	if c.Log == nil {
		err = errors.Join(err, errors.New("there is no log"))
	}
	if err != nil {
		return nil, fmt.Errorf("make the runner of hooks: %w", err)
	}
	return &Runner{exec: c.Exec, explain: c.Explain, cutShort: c.SleepCutShort, fallback: c.OnFallback, log: c.Log, transport: handler.NewTransport()}, nil
}

// Run runs the hook h and waits for its end. A nil hook succeeds. The text of an error is bounded,
// printable, and made to follow a prefix such as "PostStartHook failed: ".
//
// When ctx ends before the hook does, the error is that of ctx; for sleep as well, since the caller
// may want to know that it was cut short.
func (r *Runner) Run(ctx context.Context, t handler.Target, h *v1.LifecycleHandler) error {
	if h == nil {
		return nil
	}
	if t.Pod == nil || t.Container == nil {
		return errors.New("run a hook: the target lacks its pod or its container")
	}
	what, do := r.action(t, h)
	err := ctx.Err()
	if err == nil {
		err = do(ctx)
	}
	if err == nil {
		return nil
	}
	return newFailure("container "+t.Container.Name+": "+what, r.explain(err), err)
}

// action returns the function that performs h, and its name for errors.
func (r *Runner) action(t handler.Target, h *v1.LifecycleHandler) (what string, do func(context.Context) error) {
	switch {
	case h.Exec != nil:
		return fmt.Sprintf("exec %q", h.Exec.Command), func(ctx context.Context) error { return r.command(ctx, t, h.Exec.Command) }
	case h.HTTPGet != nil:
		return "httpGet", func(ctx context.Context) error { return r.httpGet(ctx, t, h.HTTPGet) }
	case h.TCPSocket != nil:
		return "tcpSocket", func(ctx context.Context) error { return connect(ctx, t, h.TCPSocket) }
	case h.Sleep != nil:
		return fmt.Sprintf("sleep %ds", h.Sleep.Seconds), func(ctx context.Context) error { return r.sleep(ctx, h.Sleep.Seconds) }
	default:
		return "hook", func(context.Context) error {
			return errors.New("it asks for nothing: set one of exec, httpGet, tcpSocket, sleep")
		}
	}
}

func (r *Runner) command(ctx context.Context, t handler.Target, command []string) error {
	switch {
	case len(command) == 0:
		return errors.New("the command is empty")
	case t.ContainerID == "":
		return errors.New("the container was not made yet")
	}
	var timeout time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
		if timeout <= 0 { // zero would be no timeout at all
			return context.DeadlineExceeded
		}
	}
	output, exitCode, err := r.exec(ctx, t.ContainerID, command, timeout)
	if err != nil || exitCode == 0 {
		return err
	}
	// The end of the output usually says why a command failed.
	text := printable.Tail(printable.OneLine(string(output)), maxOutput)
	if text == "" {
		return fmt.Errorf("exit code %d, no output", exitCode)
	}
	return fmt.Errorf("exit code %d, output: %s", exitCode, text)
}

func connect(ctx context.Context, t handler.Target, a *v1.TCPSocketAction) error {
	at, err := handler.Address(t, a.Host, a.Port)
	if err != nil {
		return err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (r *Runner) sleep(ctx context.Context, seconds int64) error {
	const most = int64(math.MaxInt64 / time.Second)
	timer := time.NewTimer(time.Duration(min(seconds, most)) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if r.cutShort != nil {
			r.cutShort()
		}
		return ctx.Err()
	}
}
