package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// CRIProxy stands before a container runtime. It passes every call on, but for those that
// it was told to hold.
type CRIProxy struct {
	runtime *grpc.ClientConn

	mu   sync.Mutex
	held map[string]chan struct{} // by method; closed when it is released
}

// NewCRIProxy listens at a socket, for the runtime at another, until the test ends.
func NewCRIProxy(t *testing.T, socket, runtime string) *CRIProxy {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+runtime, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	p := &CRIProxy{runtime: conn, held: map[string]chan struct{}{}}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(p.pass))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(<-ended, conn.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Hold lets calls of these methods, such as ListContainers, hang until release.
func (p *CRIProxy) Hold(methods ...string) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	released := make(chan struct{})
	for _, m := range methods {
		p.held[m] = released
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, m := range methods {
			delete(p.held, m)
		}
		close(released)
	})
}

// pass hands one call on, with its one request and its answers.
func (p *CRIProxy) pass(_ any, from grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(from)
	if err := p.await(from.Context(), path.Base(method)); err != nil {
		return err
	}
	ctx := from.Context()
	if about, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, about)
	}
	to, err := p.runtime.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	var message []byte
	if err := from.RecvMsg(&message); err != nil {
		return err
	}
	if err := errors.Join(to.SendMsg(&message), to.CloseSend()); err != nil {
		return err
	}
	for {
		switch err := to.RecvMsg(&message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := from.SendMsg(&message); err != nil {
			return err
		}
	}
}

func (p *CRIProxy) await(ctx context.Context, method string) error {
	p.mu.Lock()
	held := p.held[method]
	p.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rawCodec leaves messages as they are.
type rawCodec struct{}

// Name is that of what is in the messages.
func (rawCodec) Name() string { return "proto" }

// Marshal implements encoding.Codec.
func (rawCodec) Marshal(v any) ([]byte, error) {
	message, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is no raw message", v)
	}
	return *message, nil
}

// Unmarshal implements encoding.Codec.
func (rawCodec) Unmarshal(data []byte, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is no raw message", v)
	}
	*message = append([]byte(nil), data...)
	return nil
}
