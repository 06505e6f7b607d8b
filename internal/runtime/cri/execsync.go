package cri

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of all other calls
	"google.golang.org/grpc/mem"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// streamWindow is how many bytes of an answer a runtime may send before they are read. A fixed
	// window also keeps gRPC from making it larger by itself.
	streamWindow = 64 << 10
	// outputTimeout is how long receiving the output of one command may delay that of the next.
	outputTimeout = 5 * time.Second
)

// boundedOutput receives the answers of ExecSync. An answer holds all that the command has
// written, up to 16 MiB, and gRPC holds all of an answer: many probes that print much at the same
// time would need more memory than the agent may use. So no two answers are received at the same
// time, and of each only the beginning is kept.
func boundedOutput() grpc.UnaryClientInterceptor {
	turn := make(chan struct{}, 1)
	return func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		if method != runtimeapi.RuntimeService_ExecSync_FullMethodName {
			return invoke(ctx, method, request, reply, conn, options...)
		}
		return execSync(ctx, conn, request, reply, turn, append(options, grpc.ForceCodecV2(outputCodec{})))
	}
}

func execSync(ctx context.Context, conn *grpc.ClientConn, request, reply any, turn chan struct{}, options []grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream, whatever happens
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{}, runtimeapi.RuntimeService_ExecSync_FullMethodName, options...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) { // then RecvMsg has the cause
		return err
	}
	// The header comes with the answer, once the command has ended: nothing is held meanwhile.
	if _, err := stream.Header(); err != nil {
		return err
	}
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-time.After(outputTimeout): // by a runtime that sends the header first, and the answer late
	case <-ctx.Done(): // RecvMsg returns the error
	}
	return stream.RecvMsg(reply)
}

// outputCodec is gRPC's codec for protobuf, except for ExecSyncResponse, of which it keeps the
// beginning of both outputs.
type outputCodec struct{}

func (outputCodec) Name() string { return "proto" }

func (outputCodec) Marshal(v any) (mem.BufferSlice, error) {
	return encoding.GetCodecV2("proto").Marshal(v)
}

func (outputCodec) Unmarshal(data mem.BufferSlice, v any) error {
	reply, ok := v.(*runtimeapi.ExecSyncResponse)
	if !ok {
		return encoding.GetCodecV2("proto").Unmarshal(data, v)
	}
	r := data.Reader()
	defer func() { _ = r.Close() }() // it never fails
	if err := parseOutput(r, reply); err != nil {
		return fmt.Errorf("read the output of a command: %w", err)
	}
	return nil
}

// parseOutput decodes the three fields of an ExecSyncResponse. Other fields are skipped.
func parseOutput(r *mem.Reader, reply *runtimeapi.ExecSyncResponse) error {
	const stdout, stderr, exitCode = 1, 2, 3
	const varint, fixed64, chars, fixed32 = 0, 1, 2, 5
	for r.Remaining() > 0 {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		var value uint64
		var text []byte
		switch tag & 7 {
		case varint:
			value, err = binary.ReadUvarint(r)
		case fixed64:
			_, err = r.Discard(8)
		case chars:
			text, err = readTruncated(r)
		case fixed32:
			_, err = r.Discard(4)
		default:
			err = fmt.Errorf("type %d of a field is not known", tag&7)
		}
		if err != nil {
			return err
		}
		switch tag {
		case stdout<<3 | chars:
			reply.Stdout = text
		case stderr<<3 | chars:
			reply.Stderr = text
		case exitCode<<3 | varint:
			reply.ExitCode = int32(value & math.MaxUint32) // protobuf writes an int32 so
		}
	}
	return nil
}

// readTruncated reads a field of bytes, and returns the first maxOutput of them.
func readTruncated(r *mem.Reader) ([]byte, error) {
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if size > uint64(r.Remaining()) {
		return nil, io.ErrUnexpectedEOF
	}
	var kept bytes.Buffer
	keep := min(int64(size), maxOutput)
	if _, err := io.CopyN(&kept, r, keep); err != nil {
		return nil, err
	}
	_, err = r.Discard(int(int64(size) - keep))
	return kept.Bytes(), err
}
