package cri

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// commander is a runtime in which every command ends with the same answer.
type commander struct {
	runtimeapi.RuntimeServiceClient
	answer  *runtimeapi.ExecSyncResponse
	err     error
	request *runtimeapi.ExecSyncRequest
	left    time.Duration // until the deadline; 0 without one
}

func (c *commander) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	c.request = r
	if deadline, ok := ctx.Deadline(); ok {
		c.left = time.Until(deadline)
	}
	if c.answer == nil && c.err == nil {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return c.answer, c.err
}

func TestExecTellsOutputAndExitCode(t *testing.T) {
	runtime := &commander{answer: &runtimeapi.ExecSyncResponse{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 3}}

	output, exit, err := (&Client{runtime: runtime}).Exec(t.Context(), "c1", []string{"sh", "-c", "x"}, 0)

	if err != nil || string(output) != "outerr" || exit != 3 {
		t.Errorf("got %q, %d, %v", output, exit, err)
	}
	if runtime.request.ContainerId != "c1" || !slices.Equal(runtime.request.Cmd, []string{"sh", "-c", "x"}) {
		t.Errorf("asked for %v", runtime.request)
	}
	if runtime.request.Timeout != 0 || runtime.left != 0 {
		t.Errorf("a timeout of %ds, %s left, and none was asked for", runtime.request.Timeout, runtime.left)
	}
}

func TestExecTimeoutIsRoundedUpForTheRuntimeOnly(t *testing.T) {
	runtime := &commander{answer: &runtimeapi.ExecSyncResponse{}}

	if _, _, err := (&Client{runtime: runtime}).Exec(t.Context(), "c1", []string{"x"}, 1200*time.Millisecond); err != nil {
		t.Fatal(err)
	}

	if runtime.request.Timeout != 2 || runtime.left <= 0 || runtime.left > 1200*time.Millisecond {
		t.Errorf("the runtime was told %ds, the call had %s", runtime.request.Timeout, runtime.left)
	}
}

func TestExecErrors(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx     context.Context
		command []string
		timeout time.Duration
		err     error // of the runtime; nil: it answers when ctx ends
		is      error
		says    string
	}{
		"the runtime's clock": {command: []string{"x"}, timeout: time.Hour, err: status.Error(codes.DeadlineExceeded, "timeout 1h exceeded"), is: context.DeadlineExceeded, says: "container c1: the command did not end"},
		"our clock":           {command: []string{"x"}, timeout: time.Millisecond, is: context.DeadlineExceeded, says: "container c1: the command did not end"},
		"already over":        {command: []string{"x"}, timeout: -time.Second, is: context.DeadlineExceeded, says: "did not end"},
		"cancelled":           {ctx: cancelled, command: []string{"x"}, is: context.Canceled, says: "container c1"},
		"gone":                {command: []string{"x"}, err: status.Error(codes.NotFound, "c1 is not here"), says: "exec in container c1"},
		"no command":          {says: "there is no command"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.ctx == nil {
				tc.ctx = t.Context()
			}
			_, _, err := (&Client{runtime: &commander{err: tc.err}}).Exec(tc.ctx, "c1", tc.command, tc.timeout)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("got %v, want %q", err, tc.says)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%v is not %v", err, tc.is)
			}
			if name == "gone" && !IsNotFound(err) {
				t.Errorf("%v hides that the container is gone", err)
			}
		})
	}
}

func TestJoinedLeavesBothStreamsTheirShare(t *testing.T) {
	const kib = 1 << 10
	for name, tc := range map[string]struct{ out, err, wantOut, wantErr int }{
		"both short":   {1 * kib, 2 * kib, 1 * kib, 2 * kib},
		"much on out":  {99 * kib, 1 * kib, 15 * kib, 1 * kib},
		"much on err":  {1 * kib, 99 * kib, 1 * kib, 15 * kib},
		"much on both": {99 * kib, 99 * kib, 8 * kib, 8 * kib},
		"nothing":      {},
	} {
		t.Run(name, func(t *testing.T) {
			got := joined(bytes.Repeat([]byte("o"), tc.out), bytes.Repeat([]byte("e"), tc.err))
			if o, e := bytes.Count(got, []byte("o")), bytes.Count(got, []byte("e")); o != tc.wantOut || e != tc.wantErr {
				t.Errorf("got %d and %d bytes, want %d and %d", o, e, tc.wantOut, tc.wantErr)
			}
		})
	}
}
