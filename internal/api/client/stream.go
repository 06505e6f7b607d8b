package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	upgrades "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"berth/internal/api/find"
)

// ExitError says that a command has ended with an exit code other than 0.
type ExitError struct{ Code int }

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("the command ended with exit code %d", e.Code) }

// errLost says that a stream has ended without the exit status of the process.
var errLost = errors.New("the connection was lost; whether the command goes on is not known")

// Exec runs a command in a container until it ends. An exit code other than 0 is an *ExitError.
func (n *NodeAPI) Exec(ctx context.Context, p *v1.Pod, container string, command []string, s remotecommand.StreamOptions) error {
	q := streamQuery(s)
	q[v1.ExecCommandParam] = command
	return n.stream(ctx, p, container, "exec", q, s)
}

// Attach connects to the main process of a container until it ends.
func (n *NodeAPI) Attach(ctx context.Context, p *v1.Pod, container string, s remotecommand.StreamOptions) error {
	return n.stream(ctx, p, container, "attach", streamQuery(s), s)
}

// streamQuery returns the query for the streams that are not nil. A terminal has no stderr.
func streamQuery(s remotecommand.StreamOptions) url.Values {
	q := url.Values{}
	for key, set := range map[string]bool{
		v1.ExecStdinParam: s.Stdin != nil, v1.ExecStdoutParam: s.Stdout != nil, v1.ExecStderrParam: s.Stderr != nil && !s.Tty, v1.ExecTTYParam: s.Tty,
	} {
		if set {
			q.Set(key, "1")
		}
	}
	return q
}

func (n *NodeAPI) stream(ctx context.Context, p *v1.Pod, container, what string, q url.Values, s remotecommand.StreamOptions) error {
	if err := NotRunning(p, container); err != nil {
		return err
	}
	at := n.base.JoinPath(what, p.Namespace, p.Name, container)
	at.RawQuery = q.Encode()
	err := n.connect(ctx, at, s)
	if exit := exec.ExitError(nil); errors.As(err, &exit) {
		return &ExitError{Code: exit.ExitStatus()}
	}
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	// For a container that has just ended, the state of the pod explains more than the error of the
	// runtime.
	if now, lookup := n.reload(ctx, p); lookup == nil && now != nil && now.UID == p.UID {
		if stopped := NotRunning(now, container); stopped != nil {
			return stopped
		}
	}
	return n.explain(err)
}

// connect opens the streams, and copies their data until the process ends.
func (n *NodeAPI) connect(ctx context.Context, at *url.URL, s remotecommand.StreamOptions) error {
	transport, err := n.upgrade()
	if err != nil {
		return err
	}
	ending := &exitStatus{UpgradeRoundTripper: transport}
	// From version 4 of the protocol on, the server always sends the exit status.
	streamer, err := remotecommand.NewSPDYExecutorForProtocols(transport, upgrades.NewUpgraderForStreaming(ending), http.MethodPost, at, protocol.StreamProtocolV5Name, protocol.StreamProtocolV4Name)
	if err != nil {
		return err
	}
	if n.network != nil {
		// WebSocket is tried first: some proxies do not support SPDY.
		first, err := remotecommand.NewWebSocketExecutor(n.network, http.MethodGet, at.String())
		if err != nil {
			return err
		}
		streamer, err = remotecommand.NewFallbackExecutor(first, streamer, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		})
		if err != nil {
			return err
		}
	}
	if s.Tty {
		s.Stderr = nil
	}
	if err := streamer.StreamWithContext(ctx, s); err != nil {
		return err
	}
	if ending.missing() {
		return errLost
	}
	return nil
}

// explain removes the prefixes of the library from the text of an error.
func (n *NodeAPI) explain(err error) error {
	text := err.Error()
	for _, before := range []string{"unable to upgrade connection: ", "error upgrading connection: "} {
		if _, after, found := strings.Cut(text, before); found {
			text = after
		}
	}
	if text == "404 page not found" {
		text = "it has no such API; it may be of an older version"
	}
	return fmt.Errorf("%s: %s", n.name, strings.TrimSpace(text))
}

// NotRunning returns nil if a container runs, and else an error with its state and a hint what to do.
func NotRunning(p *v1.Pod, container string) error {
	name := find.ManifestName(p)
	logs := "'berth logs " + name + " -c " + container
	switch s := find.Status(p, container).State; {
	case s.Running != nil:
		return nil
	case s.Terminated != nil:
		return fmt.Errorf("container %s of pod %s has ended with exit code %d; see %s'", container, name, s.Terminated.ExitCode, logs)
	case s.Waiting != nil && s.Waiting.Reason == "CrashLoopBackOff":
		return fmt.Errorf("container %s of pod %s is waiting: CrashLoopBackOff; see %s -p'", container, name, logs)
	case s.Waiting != nil && s.Waiting.Reason != "":
		text := s.Waiting.Reason
		if s.Waiting.Message != "" {
			text += ": " + s.Waiting.Message
		}
		return fmt.Errorf("container %s of pod %s is waiting: %s; see 'berth describe pod %s'", container, name, text, name)
	}
	return fmt.Errorf("container %s of pod %s does not run; see 'berth describe pod %s'", container, name, name)
}
