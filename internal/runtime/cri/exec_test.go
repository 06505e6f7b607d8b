package cri

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// commander is a runtime in which every command ends with the same answer.
type commander struct {
	runtimeapi.RuntimeServiceClient
	answer  *runtimeapi.ExecSyncResponse
	err     error
	request *runtimeapi.ExecSyncRequest
	left    time.Duration // until the deadline; 0 without one
	takes   time.Duration // until it answers
	mute    bool          // no other question is answered
}

func (c *commander) Version(ctx context.Context, _ *runtimeapi.VersionRequest, _ ...grpc.CallOption) (*runtimeapi.VersionResponse, error) {
	if c.mute {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &runtimeapi.VersionResponse{}, nil
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
	time.Sleep(c.takes)
	return c.answer, c.err
}

func TestExecReturnsOutputAndExitCode(t *testing.T) {
	runtime := &commander{answer: &runtimeapi.ExecSyncResponse{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 3}}

	output, exit, err := (&Client{runtime: runtime, timeout: time.Minute}).Exec(t.Context(), "c1", []string{"sh", "-c", "x"}, 0)

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

func TestTheRuntimeIsTheFirstToGiveUpOnACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &commander{answer: &runtimeapi.ExecSyncResponse{}}

		if _, _, err := (&Client{runtime: runtime, timeout: time.Minute}).Exec(t.Context(), "c1", []string{"x"}, 1200*time.Millisecond); err != nil {
			t.Fatal(err)
		}

		if runtime.request.Timeout != 2 || runtime.left != 2*time.Second+time.Minute {
			t.Errorf("the runtime got %ds, the call had %s", runtime.request.Timeout, runtime.left)
		}
	})
}

func TestExecErrors(t *testing.T) {
	tooLate := status.Error(codes.DeadlineExceeded, "timeout 5s exceeded")
	for name, tc := range map[string]struct {
		cancelled bool
		within    time.Duration // what the caller has for it; 0: for ever
		command   []string
		timeout   time.Duration
		runtime   commander
		is        error
		says      string
		took      time.Duration
	}{
		"the command is too slow":    {command: []string{"x"}, timeout: 5 * time.Second, runtime: commander{err: tooLate, takes: 6 * time.Second}, is: context.DeadlineExceeded, says: "container c1: the command did not end", took: 6 * time.Second},
		"nobody answers":             {command: []string{"x"}, timeout: 5 * time.Second, is: pod.ErrNoAnswer, says: "container c1: the container runtime does not answer", took: 65 * time.Second},
		"the runtime stood still":    {command: []string{"x"}, timeout: 5 * time.Second, runtime: commander{err: tooLate, takes: 40 * time.Second}, is: pod.ErrNoAnswer, says: "reported after 40s", took: 40 * time.Second},
		"for ever, and it is silent": {command: []string{"x"}, runtime: commander{mute: true}, is: pod.ErrNoAnswer, says: "does not answer", took: 2 * time.Minute},
		"as long as the caller has":  {command: []string{"x"}, within: time.Hour, is: context.DeadlineExceeded, says: "container c1", took: time.Hour},
		"the runtime goes away":      {command: []string{"x"}, runtime: commander{err: status.Error(codes.Unavailable, "error reading from server: EOF")}, is: pod.ErrNoAnswer, says: "container c1: the container runtime does not answer: "},
		"the runtime breaks it off":  {command: []string{"x"}, runtime: commander{err: status.Error(codes.Canceled, "context canceled")}, is: pod.ErrNoAnswer, says: "container c1: the container runtime does not answer: "},
		"already over":               {command: []string{"x"}, timeout: -time.Second, is: context.DeadlineExceeded, says: "no time left"},
		"cancelled":                  {cancelled: true, command: []string{"x"}, is: context.Canceled, says: "container c1"},
		"gone":                       {command: []string{"x"}, runtime: commander{err: status.Error(codes.NotFound, "c1 is not here")}, says: "exec in container c1"},
		"no command":                 {says: "there is no command"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if tc.within > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), tc.within)
				}
				defer cancel()
				if tc.cancelled {
					cancel()
				}
				began := time.Now()
				_, _, err := (&Client{runtime: &tc.runtime, timeout: time.Minute}).Exec(ctx, "c1", tc.command, tc.timeout)
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Fatalf("got %v, want %q", err, tc.says)
				}
				if took := time.Since(began); took != tc.took {
					t.Errorf("it took %s, want %s", took, tc.took)
				}
				if tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("%v is not %v", err, tc.is)
				}
				if errors.Is(err, pod.ErrNoAnswer) && errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v reads as a command that was too slow", err)
				}
				if name == "gone" && !IsNotFound(err) {
					t.Errorf("%v hides that the container is gone", err)
				}
			})
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
			got := truncateOutput(bytes.Repeat([]byte("o"), tc.out), bytes.Repeat([]byte("e"), tc.err))
			if o, e := bytes.Count(got, []byte("o")), bytes.Count(got, []byte("e")); o != tc.wantOut || e != tc.wantErr {
				t.Errorf("got %d and %d bytes, want %d and %d", o, e, tc.wantOut, tc.wantErr)
			}
		})
	}
}
