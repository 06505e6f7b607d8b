// Package tracetest has a collector of traces for tests: it takes what is sent to it
// as OTLP over gRPC, as a real one does, and keeps it.
package tracetest

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
)

// Span is one span as it arrived.
type Span struct {
	Name       string
	ID, Parent string // Parent is "" for the first one of a trace
	Attributes map[string]string
	Error      string
	Resource   map[string]string // who sent it
}

// Collector keeps what is sent to it.
type Collector struct {
	collect.UnimplementedTraceServiceServer
	answer func(context.Context) error

	mu    sync.Mutex
	spans []Span
}

// Serve collects until the test ends. Each request is given to answer first: it may
// refuse the request, or not return. With nil, all are taken.
func Serve(t testing.TB, l net.Listener, answer func(context.Context) error) *Collector {
	c := &Collector{answer: answer}
	server := grpc.NewServer()
	collect.RegisterTraceServiceServer(server, c)
	var ended sync.WaitGroup
	ended.Go(func() {
		// A test may be over before this has begun.
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("the collector ended: %v", err)
		}
	})
	t.Cleanup(func() {
		server.Stop()
		ended.Wait()
	})
	return c
}

// Spans are all that have arrived, in the order in which they came.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Export is the one call of the protocol.
func (c *Collector) Export(ctx context.Context, in *collect.ExportTraceServiceRequest) (*collect.ExportTraceServiceResponse, error) {
	if c.answer != nil {
		if err := c.answer(ctx); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sent := range in.GetResourceSpans() {
		for _, scope := range sent.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{
					Name: s.GetName(), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Attributes: texts(s.GetAttributes()), Error: s.GetStatus().GetMessage(), Resource: texts(sent.GetResource().GetAttributes()),
				})
			}
		}
	}
	return &collect.ExportTraceServiceResponse{}, nil
}

func texts(pairs []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, p := range pairs {
		out[p.GetKey()] = p.GetValue().GetStringValue()
	}
	return out
}
