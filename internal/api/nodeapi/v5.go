package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"berth/internal/runtime/cri"
)

const (
	pingInterval  = 5 * time.Second
	statusTimeout = 10 * time.Second
)

// proxyV5 translates between a client with WebSocket and the protocol v5, and the runtime with SPDY.
// v5 is v4 with a message for the end of stdin.
func (a *API) proxyV5(w http.ResponseWriter, r *http.Request, location *url.URL, s cri.Streams) {
	channels := make([]wsstream.ChannelType, protocol.StreamResize+1)
	for number, wanted := range map[int]bool{protocol.StreamStdOut: s.Stdout, protocol.StreamStdErr: s.Stderr, protocol.StreamErr: true} {
		if wanted {
			channels[number] = wsstream.WriteChannel
		}
	}
	if s.Stdin {
		channels[protocol.StreamStdIn] = wsstream.ReadChannel
	}
	channels[protocol.StreamResize] = wsstream.ReadChannel
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{protocol.StreamProtocolV5Name: {Binary: true, Channels: channels}})
	conn.SetIdleTimeout(a.StreamIdle)
	_, client, err := conn.Open(w, r)
	if err != nil {
		a.Log.Debug("a WebSocket could not be opened", "from", r.RemoteAddr, "err", err)
		return // the library has answered
	}
	defer func() { _ = conn.Close() }()
	// The client waits for an empty message to know that it is connected.
	first := protocol.StreamErr
	if s.Stdout {
		first = protocol.StreamStdOut
	}
	if _, err := client[first].Write([]byte{}); err != nil {
		return
	}

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	options := remotecommand.StreamOptions{Tty: s.TTY}
	if s.Stdin {
		options.Stdin = client[protocol.StreamStdIn]
	}
	if s.Stdout {
		options.Stdout = client[protocol.StreamStdOut]
	}
	if s.Stderr {
		options.Stderr = client[protocol.StreamStdErr]
	}
	if s.TTY {
		options.TerminalSizeQueue = &terminalSizes{json.NewDecoder(client[protocol.StreamResize])}
	}
	status, err := json.Marshal(statusOf(streamSPDY(ctx, location, options)))
	if err != nil {
		return // does not happen: a Status has only texts and numbers
	}
	conn.SetWriteDeadline(statusTimeout)
	_, _ = client[protocol.StreamErr].Write(status)
}

// streamSPDY connects streams to the runtime over SPDY until they end.
func streamSPDY(ctx context.Context, location *url.URL, options remotecommand.StreamOptions) error {
	tripper, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{PingPeriod: pingInterval})
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutorRejectRedirects(tripper, clientspdy.NewUpgraderForStreaming(tripper), http.MethodPost, location)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, options)
}

// statusOf returns the Status that ends a stream. An exit code other than 0 is a failure of the
// command, and not of the node.
func statusOf(err error) metav1.Status {
	var exited exec.CodeExitError
	var status *apierrors.StatusError
	switch {
	case err == nil:
		return metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &exited):
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: protocol.NonZeroExitCodeReason, Message: exited.Error(),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: protocol.ExitCodeCauseType, Message: strconv.Itoa(exited.Code)}}},
		}
	case errors.As(err, &status):
		return status.Status()
	}
	return apierrors.NewInternalError(err).Status()
}

// terminalSizes reads the sizes of a client's terminal from the resize stream.
type terminalSizes struct{ from *json.Decoder }

// Next returns the next size of the terminal, or nil at the end of the stream.
func (s *terminalSizes) Next() *remotecommand.TerminalSize {
	var size remotecommand.TerminalSize
	if err := s.from.Decode(&size); err != nil {
		return nil
	}
	return &size
}
