package cri

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestOfOutputTheBeginningIsKept(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 10<<20)
	for name, c := range map[string]struct{ sent, want *runtimeapi.ExecSyncResponse }{
		"nothing": {&runtimeapi.ExecSyncResponse{}, &runtimeapi.ExecSyncResponse{}},
		"both": {
			&runtimeapi.ExecSyncResponse{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 3},
			&runtimeapi.ExecSyncResponse{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 3},
		},
		"a negative code": {&runtimeapi.ExecSyncResponse{ExitCode: -1}, &runtimeapi.ExecSyncResponse{ExitCode: -1}},
		"floods": {
			&runtimeapi.ExecSyncResponse{Stdout: long, Stderr: long[:maxOutput+1], ExitCode: 1},
			&runtimeapi.ExecSyncResponse{Stdout: long[:maxOutput], Stderr: long[:maxOutput], ExitCode: 1},
		},
	} {
		sent, err := proto.Marshal(c.sent)
		if err != nil {
			t.Fatal(err)
		}
		// given fields of a later version, too
		sent = append(sent, 0x61, 1, 2, 3, 4, 5, 6, 7, 8, 0x6d, 1, 2, 3, 4, 0x72, 2, 'h', 'i')
		var got runtimeapi.ExecSyncResponse
		if err := (outputCodec{}).Unmarshal(pieces(sent), &got); err != nil || !proto.Equal(&got, c.want) {
			t.Errorf("%s: got %d, %d, %d; %v", name, len(got.Stdout), len(got.Stderr), got.ExitCode, err)
		}
	}
}

// pieces is data as it comes from a connection.
func pieces(data []byte) mem.BufferSlice {
	var out mem.BufferSlice
	for len(data) > 0 {
		n := min(len(data), 1000)
		out = append(out, mem.SliceBuffer(data[:n]))
		data = data[n:]
	}
	return out
}

func FuzzOutput(f *testing.F) {
	for _, seed := range [][]byte{nil, {0x0a}, {0x0a, 5, 'x'}, {0x0b}, {0x18, 0xff}, {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got runtimeapi.ExecSyncResponse
		if err := (outputCodec{}).Unmarshal(pieces(data), &got); err != nil {
			return
		}
		// What is taken is what protobuf reads.
		var want runtimeapi.ExecSyncResponse
		if err := proto.Unmarshal(data, &want); err == nil && (!bytes.Equal(got.Stdout, want.Stdout[:min(len(want.Stdout), maxOutput)]) || got.ExitCode != want.ExitCode) {
			t.Errorf("got %v, want %v", &got, &want)
		}
	})
}

func TestManyCommandsThatPrintMuch(t *testing.T) {
	// given a runtime whose commands all print much
	const size, commands = 8 << 20, 10
	half := bytes.Repeat([]byte("x"), size/2)
	flood := &runtimeapi.ExecSyncResponse{Stdout: half, Stderr: half, ExitCode: 2}
	at := socket(t)
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	sent := &countingListener{Listener: l}
	s := &server{answers: map[string]proto.Message{"ExecSync": flood}}
	s.serveOn(t, sent)
	c := connect(t, at, time.Minute)

	// when many end at the same time
	var all sync.WaitGroup
	for range commands {
		all.Go(func() {
			output, code, err := c.Exec(t.Context(), "c1", []string{"x"}, time.Minute)
			sent.received(size)
			if err != nil || code != 2 || len(output) != maxOutput {
				t.Errorf("got %d bytes, %d, %v", len(output), code, err)
			}
		})
	}
	all.Wait()

	// then only a few of them were in memory at a time
	if most := sent.most(); most < size || most > 4*size {
		t.Errorf("up to %d MiB were under way, and one answer has %d MiB", most>>20, size>>20)
	}
}

func TestCommandsThatGiveNoOutput(t *testing.T) {
	// given a runtime that refuses, and one that does not answer
	refuses := clientOf(t, &server{fails: map[string]error{"ExecSync": status.Error(codes.NotFound, "no such container")}})
	hangs := clientOf(t, &server{hangs: true})
	if _, _, err := refuses.Exec(t.Context(), "c1", []string{"x"}, time.Minute); code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := hangs.Exec(ctx, "c1", []string{"x"}, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	// given none at all
	nobody := connect(t, socket(t), time.Minute)
	if _, _, err := nobody.Exec(t.Context(), "c1", []string{"x"}, time.Minute); code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}

// countingListener counts the bytes that were sent to clients, and are not done with.
type countingListener struct {
	net.Listener
	mu        sync.Mutex
	now, high int
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, l}, err
}

func (l *countingListener) received(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now -= n
}

func (l *countingListener) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.high
}

type countingConn struct {
	net.Conn
	l *countingListener
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.now += n
	c.l.high = max(c.l.high, c.l.now)
	return n, err
}
